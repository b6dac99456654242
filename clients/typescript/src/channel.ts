import type { Below } from "./below.js";
import { entries, natural, text, type Json } from "./parsing.js";
import { need } from "./refusals.js";
import { xxh32 } from "./xxh32.js";

export type Draw = (position: bigint, below: Below) => bigint;

/** Whether its integers fit together, how many cells it has, and how it draws one of them. */
type Kind = [fits: unknown, cells: bigint, draw: Draw];

/**
 * How many cells a channel has, from `offset` on, and how one is drawn. The integers fit together for positions up to
 * `last`, and P/Q is at most `bound`/2^128: every cell has a weight from Q to P for every position, of one total.
 */
export function readChannel(source: Json, offset: bigint, last: bigint, bound: bigint): [cells: bigint, draw: Draw] {
  /** One of width + others outcomes: those from `start` on, `width` of them, have the weight P, the others Q. */
  const favoured: Draw = (start, below) => {
    const r = below(total);
    if (r < width * P) return start + r / P;
    const other = (r - width * P) / Q;
    return other < start ? other : other + width;
  };

  /** Reports a key that is drawn first, and one of the symbols: that of the position under the key, or another. */
  const keyed = (fits: unknown, symbols: bigint, keys: bigint, symbol: (key: bigint, x: bigint) => bigint): Kind => [
    fits && width === 1n && span === symbols && most < 65536n,
    symbols * keys,
    (x, below) => {
      const key = below(keys);
      return key * symbols + favoured(symbol(key, x) % symbols, below);
    },
  ];

  const kinds: Record<string, [integers: string, read: (...integers: any[]) => Kind]> = {
    block: ["", () => [most <= others, span, favoured]],
    wave: [
      " ramp step",
      (ramp: bigint, step: bigint) => [
        most + ramp - 1n <= others && !(span % step),
        span / step,
        (x, below) => {
          const r = below(total);
          const excess = width * (P - Q);
          return (r < excess ? x + r / (P - Q) + below(ramp) : (r - excess) / Q) / step;
        },
      ],
    ],
    coin: [
      " steps",
      (steps: bigint) => [
        most === steps && span === 2n,
        span,
        (x, below) => favoured(below(steps) < x ? 1n : 0n, below),
      ],
    ],
    hadamard: [
      " rows",
      (rows: bigint) =>
        keyed(!(rows & (rows - 1n)) && most / 2n < rows, 2n, rows, (row, x) => {
          let bits = 1n ^ x;
          for (let common = row & (x / 2n); common; common >>= 1n) bits ^= common;
          return bits & 1n;
        }),
    ],
    linear_hash: [
      " symbols digits functions",
      (symbols: bigint, digits: bigint, functions: bigint) =>
        keyed(digits < 19n && functions === symbols ** digits && most < functions, symbols, functions, (f, x) => {
          let sum = 0n;
          for (; x; x /= symbols, f /= symbols) sum += (f % symbols) * (x % symbols);
          return sum;
        }),
    ],
    xxh32: [
      " symbols",
      (symbols: bigint) => keyed(1, symbols, 1n << 32n, (seed, x) => BigInt(xxh32("" + x, Number(seed)))),
    ],
  };
  const [more, make] = kinds[text(source.kind, /./)]!; // what objects inherit is no list, and refused
  const [, begin, ...texts] = entries(source, "kind offset divisor P Q width others total" + more);
  const [divisor, P, Q, width, others, total, ...rest] = texts.map(natural) as Integers;
  const most = last / divisor;
  const span = width + others;
  const [fits, cells, draw] = make(...rest);
  const weighed = begin === "" + offset && P >= Q && total === width * P + others * Q;
  need(fits && weighed && P << 128n <= Q * bound, source.kind);
  return [cells, (position, below) => offset + draw(position / divisor, below)];
}

type Integers = [bigint, bigint, bigint, bigint, bigint, bigint, ...bigint[]];
