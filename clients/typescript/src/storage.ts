/** A text that survives a restart. */
export interface TextStorage {
  /**
   * Replaces the text, undefined at first, by what `change` makes of it. Whoever else shares the storage waits
   * for their turn meanwhile. Resolves when the new text is safely written; if `change` throws, nothing is.
   */
  update(change: (text: string | undefined) => string): Promise<void>;
}

/** For tests, and for devices that forget all when they end. */
export function memoryStorage(): TextStorage {
  let text: string | undefined;
  return {
    async update(change) {
      text = change(text);
    },
  };
}
