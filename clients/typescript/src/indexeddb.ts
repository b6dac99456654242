import type { TextStorage } from "./storage.js";

/**
 * Of a browser, shared by all tabs and workers of an origin.
 *
 * IndexedDB and not `localStorage`, since its transactions take turns between tabs by themselves, also where a page may
 * not use locks, and can be asked to be on the disk before they are done.
 */
export function browserStorage(name = "hushgram"): TextStorage {
  return {
    async update(change) {
      const opening = indexedDB.open(name);
      opening.onupgradeneeded = () => opening.result.createObjectStore(name);
      const database = await answer(opening);
      const transaction = database.transaction(name, "readwrite", { durability: "strict" });
      database.close(); // once the transaction is over
      const store = transaction.objectStore(name);
      const text = await answer<string | undefined>(store.get(name));
      const next = change(text);
      if (next === text) return;
      store.put(next, name);
      await new Promise((resolve, reject) => {
        transaction.oncomplete = resolve;
        transaction.onabort = () => reject(transaction.error);
      });
    },
  };
}

const answer = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
