import { below } from "./below.js";
import { spend, type Ledger } from "./ledger.js";
import type { Manifest } from "./manifest.js";
import { fromHex } from "./message.js";
import { count } from "./parsing.js";
import { need, OverBudgetError } from "./refusals.js";
import type { TextStorage } from "./storage.js";
import { DAY, post } from "./upload.js";
import { xxh32 } from "./xxh32.js";

const QUEUE_LIMIT = 1000;

type Waiting = [message: string, expires: number, tries: number];
/** Nothing is sent before the time `pause`. */
type State = [...ledger: Ledger, queue: Waiting[], pause: number];

/** What all collections of a device remember: what was spent, slots, and what is yet to be sent. */
export class Store {
  constructor(
    private readonly storage: TextStorage,
    private readonly clock: () => number = Date.now,
  ) {}

  /** Milliseconds since 1970. */
  now(): number {
    return count(Math.floor(this.clock()));
  }

  /** Takes the cost of so many reports from all budgets, or rejects with `OverBudgetError` and takes nothing. */
  async spend(manifest: Manifest, reports: number, queued: unknown): Promise<void> {
    const refused = await this.update((state) => {
      need(!queued || state[2].length < QUEUE_LIMIT, "queue");
      return spend(state as unknown as Ledger, manifest, this.now(), reports, below);
    });
    if (refused) throw new OverBudgetError("not now: " + refused);
  }

  /** How many messages are yet to be sent. */
  waiting(): Promise<number> {
    return this.update((state) => state[2].length);
  }

  async put(message: string, expires: number): Promise<void> {
    await this.update((state) => state[2].push([message, expires, 0]));
  }

  /**
   * Posts what waits, oldest first, until all is sent or the server asks to wait; the number that it has taken.
   *
   * Messages are sent as they were stored, so that one that arrives twice has one id and counts once. Whoever sends
   * pauses all others first, for as long as a request may take.
   */
  async send(url: string, timeout = 30_000): Promise<number> {
    for (let taken = 0; ; taken++) {
      const next = await this.update((state) => {
        const now = this.now();
        // A pause that ends in the far future is one from before the clock was set back.
        if (state[3] > now && state[3] <= now + DAY) return;
        state[2] = state[2].filter(([, expires]) => expires >= now);
        if (state[2][0]) state[3] = now + timeout;
        return state[2][0];
      });
      if (!next) return taken;
      const [message, , tries] = next;
      const [status, wait] = await post(url, fromHex(message), timeout, this.now());
      const done = (status >= 200 && status < 300) || [400, 413, 415, 422].includes(status);
      // Twice as long each time, up to an hour, and not all devices at once.
      const longest = 1000 * 2 ** Math.min(tries, 12);
      await this.update((state) => {
        state[2] = state[2].filter((one) => one[0] !== message || (!done && ++one[2]));
        state[3] = done ? 0 : this.now() + (wait || longest / 2 + Number(below(BigInt(longest))));
      });
      if (!done) return taken;
      if (status > 299) taken--;
    }
  }

  /** The state is kept with its hash: what is not as it was written is not used. */
  private async update<T>(change: (state: State) => T): Promise<T> {
    let result: T;
    await this.storage.update((text = EMPTY) => {
      const json = text.slice(text.indexOf("["));
      need(text === sign(json), "storage");
      const state: State = JSON.parse(json);
      result = change(state);
      return sign(JSON.stringify(state));
    });
    return result!;
  }
}

const sign = (json: string): string => xxh32(json, 0) + json;
const EMPTY = sign("[{},{},[],0]");
