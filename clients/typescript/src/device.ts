import type { Manifest } from "./manifest.js";
import { encode } from "./message.js";
import { need } from "./refusals.js";
import type { Store } from "./store.js";

/**
 * The reports of one collection from one device. Its store counts them, where there is a budget, and queues them.
 *
 *     const device = new Device(manifest, new Store(browserStorage()));
 *     await device.submit(37.5, "DE");
 *     await device.store.send("https://example.org/v1/reports");
 */
export class Device {
  constructor(
    readonly manifest: Manifest,
    readonly store: Store,
  ) {}

  /**
   * A message, to be sent by the app, as often as it takes, but never drawn again: one report of a value, or a report
   * for each of several values in one message, at the cost of as many.
   */
  async report(value: number | readonly number[], group?: string): Promise<Uint8Array<ArrayBuffer>> {
    return Uint8Array.from(await this.make(value, group));
  }

  /** The same, into the queue of the store. */
  async submit(value: number | readonly number[], group?: string): Promise<void> {
    await this.make(value, group, this.store);
  }

  /** What may be refused is refused first; then the budget; then the draw. */
  private async make(value: number | readonly number[], group?: string, queue?: Store): Promise<number[]> {
    const { manifest, store } = this;
    checkGroup(manifest, group);
    const positions = [value].flat().map((one) => manifest.positionOf(one as number));
    need(positions.length, "value");
    const time = store.moment();
    if (queue || manifest.budgets.length) await store.spend(manifest, positions.length, queue);
    const cells = positions.map((position) => manifest.cell(position));
    const id = crypto.getRandomValues(new Uint8Array(16));
    const message = encode(manifest, typeof value === "number" ? cells[0]! : cells, group, time, id);
    await queue?.keep(message, manifest.cut(time) + manifest.maxAge);
    return message;
  }
}

export const checkGroup = (manifest: Manifest, group?: string): void =>
  need([undefined, ...manifest.groups].includes(group), "group " + group);
