import type { Below } from "./below.js";
import { readLaw } from "./law.js";
import { readPlaces } from "./locate.js";
import { BATCH, REPORT } from "./message.js";
import { count, entries, label, list, real, text, type Json } from "./parsing.js";
import { need, RefusedError } from "./refusals.js";

/** What may be spent of an account in each period: billionths of ε, and milliseconds. */
export type Budget = readonly [account: string, amount: number, every: number];

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
  /** The position of a value. */
  positionOf(value: number): bigint;
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
  need(source.format === "hushgram-manifest/1", "format");
  text(source.mechanism, MECHANISM);
  const [report, batch] = entries(source.schemas, "Report ReportBatch");
  need(report === REPORT && batch === BATCH, "schemas");
  const collection = label(source.collection);
  const groups = list(source.groups, 1e4, label);
  need(new Set(groups).size === groups.length, "groups");
  const slice = count(source.slice_ms, 1);
  const first = count(source.slice_first_ms);
  const [promise, price, own, parts, total] = entries(source.device, "epsilon cost budget slots total");
  const epsilon = real(promise);
  const cost = count(price, 1, LARGEST_BUDGET);
  need(epsilon > 0 && epsilon <= 20 && cost >= epsilon * 1e9 * (1 - 1e-9), "cost");
  const budget = (account: string, source: Json): Budget[] => {
    if (source === null) return [];
    const [amount, every] = entries(source, "amount every_ms");
    return [[account, count(amount, 0, LARGEST_BUDGET), count(every, 1, TEN_YEARS)]];
  };
  const slots = count(parts, 1, 1e4);
  need(slots < 2 || own, "slots");
  const [positions, cells, draw] = readLaw(source.law, epsilon);
  return {
    collection,
    revision: text(source.revision, /^[\da-f]{16}$/),
    epsilon,
    cost,
    slots,
    groups,
    // "=", so that no collection is called "", or as what objects inherit
    budgets: [...budget("=" + collection, own), ...budget("", total)],
    cells,
    maxAge: count(source.max_age_ms),
    positionOf: readPlaces(source.domain, source.locate, positions),
    cell: draw,
    cut: (time) => {
      const past = (time - first) % slice;
      return time - past - (past < 0 ? slice : 0);
    },
  };
}
