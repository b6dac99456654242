import { below as ownBelow, type Below } from "./below.js";
import { readLaw } from "./law.js";
import { readPlaces } from "./locate.js";
import { BATCH, REPORT } from "./message.js";
import { count, label, real, text, type Json } from "./parsing.js";
import { need, RefusedError } from "./refusals.js";

/** What may be spent in each period of so many milliseconds, in billionths of ε, and from which account. */
export interface Budget {
  readonly account: string;
  readonly amount: number;
  readonly every: number;
}

/** What a device needs of a collection, checked. */
export interface Manifest {
  readonly collection: string;
  readonly revision: string;
  readonly groups: readonly string[];
  readonly epsilon: number;
  /** Billionths of ε that a report costs. */
  readonly cost: number;
  readonly budgets: readonly Budget[];
  readonly slots: number;
  readonly cells: number;
  readonly maxAge: number;
  position(value: number): bigint;
  /** The cell to report for a position. */
  cell(position: bigint, below?: Below): number;
  /** The beginning of the slice that a time lies in: a report says no more of its time than that. */
  cut(milliseconds: number): number;
}

const MECHANISM =
  /^(square_wave(_continuous)?|general_wave|randomized_response|(local|seeded)_hashing|hierarchy|haar|stochastic_rounding|piecewise)$/;
const LARGEST_BUDGET = 1e15;
const TEN_YEARS = 315_360_000_000;

/**
 * A checked manifest, from what JSON was parsed to. One whose reports cost more than `mostEpsilon` is
 * refused, so that an app need not trust a server with that.
 *
 *     const manifest = load(await (await fetch("/commute.json")).json(), { mostEpsilon: 1 });
 */
export function load(source: unknown, { mostEpsilon = Infinity } = {}): Manifest {
  try {
    const manifest = read(source);
    need(manifest.epsilon <= mostEpsilon, "epsilon");
    return manifest;
  } catch (error) {
    throw new RefusedError("manifest: " + error);
  }
}

function read(source: Json): Manifest {
  const device = source.device;
  need(source.format === "hushgram-manifest/1", "format");
  text(source.mechanism, MECHANISM);
  need("" + Object.entries(source.schemas).sort() === "" + ["Report", REPORT, "ReportBatch", BATCH], "schemas");
  const collection = label(source.collection);
  const slice = count(source.slice_ms, 1);
  const first = count(source.slice_first_ms);
  const epsilon = real(device.epsilon);
    const cost = count(device.cost, 1, LARGEST_BUDGET);
  need(epsilon > 0 && epsilon <= 20 && cost >= epsilon * 1e9 * (1 - 1e-9), "cost");
  const budget = (account: string, source: Json): Budget[] =>
    source === null
      ? []
      : [{ account, amount: count(source.amount, 0, LARGEST_BUDGET), every: count(source.every_ms, 1, TEN_YEARS) }];
  const own = budget("=" + collection, device.budget); // so that no collection is called "", or as what objects inherit
  const slots = count(device.slots, 1, 1e4);
  need(slots === 1 || own.length, "slots");
  const [positions, cells, draw] = readLaw(source.law, epsilon);
  return {
    collection,
    revision: text(source.revision, /^[\da-f]{16}$/i),
    epsilon,
    cost,
    slots,
    groups: source.groups.map(label),
    budgets: [...own, ...budget("", device.total)],
    cells,
    maxAge: count(source.max_age_ms),
    position: readPlaces(source.domain, source.locate, positions),
    cell: (position, below = ownBelow) => draw(position, below),
    cut: (time) => {
      const past = (time - first) % slice;
      return time - past - (past < 0 ? slice : 0);
    },
  };
}
