import { below } from "./below.js";
import { spend, type Ledger } from "./ledger.js";
import type { Manifest } from "./manifest.js";
import { count } from "./parsing.js";
import { need, OverBudgetError } from "./refusals.js";
import type { TextStorage } from "./storage.js";
import { DAY, post } from "./upload.js";
import { xxh32 } from "./xxh32.js";

const QUEUE_LIMIT = 1000;

type Waiting = [message: number[], expires: number, tries: number];
/** Nothing is sent before the time `pause`. */
type State = [...ledger: Ledger, queue: Waiting[], pause: number];

/** What all collections of a device remember: what was spent, slots, and what is yet to be sent. */
export class Store {
  constructor(
    private readonly backing: TextStorage,
    private readonly clock: () => number = Date.now,
  ) {}

  /** Milliseconds since 1970, a whole number. */
  moment(): number {
    return count(this.clock());
  }

  /** Takes the cost of the reports from all budgets, or rejects with `OverBudgetError` and takes nothing. */
  async spend(manifest: Manifest, reports: number, queued: unknown): Promise<void> {
    const refused = await this.update((state) => {
      need(!queued || state[2].length < QUEUE_LIMIT, "queue");
      return spend(state as unknown as Ledger, manifest, this.moment(), reports, below);
    });
    if (refused) throw new OverBudgetError("not now: " + refused);
  }

  /** How many messages are yet to be sent. */
  waiting(): Promise<number> {
    return this.update((state) => state[2].length);
  }

  async keep(message: number[], expires: number): Promise<void> {
    await this.update((state) => state[2].push([message, expires, 0]));
  }

  /**
   * Posts what waits, oldest first, until all is sent or the server asks to wait; the number that it has taken.
   *
   * Messages are sent as they were stored, so that one that arrives twice has one id and counts once. Whoever sends
   * pauses all others first, for as long as a request may take.
   */
  async send(url: string, timeout = 30_000): Promise<number> {
    let taken = 0;
    for (;;) {
      const next = await this.update((state) => {
        const now = this.moment();
        // A pause that ends in the far future is one from before the clock was set back.
        if (state[3] > now && state[3] <= now + DAY) return;
        state[2] = state[2].filter(([, expires]) => expires >= now);
        if (state[2][0]) state[3] = now + timeout;
        return state[2][0];
      });
      if (!next) return taken;
      const [message, , tries] = next;
      const [done, kept, wait] = await post(url, Uint8Array.from(message), timeout, this.moment());
      // Twice as long each time, up to an hour, and not all devices at once.
      const pause = 1000 * 2 ** Math.min(tries, 12) * (0.5 + Math.random());
      await this.update((state) => {
        state[2] = state[2].filter((one) => "" + one[0] !== "" + message || (!done && ++one[2]));
        state[3] = done ? 0 : this.moment() + (wait || pause);
      });
      if (!done) return taken;
      taken += +kept!;
    }
  }

  /** The state is kept with its hash: what is not as it was written is not used. */
  private async update<T>(change: (state: State) => T): Promise<T> {
    let result: T;
    await this.backing.update((text = EMPTY) => {
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
