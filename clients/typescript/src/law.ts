import type { Below } from "./below.js";
import { readChannel, type Draw } from "./channel.js";
import { only, whole, type Json } from "./parsing.js";
import { need } from "./refusals.js";

/** The number of positions, that of cells, and how a position becomes a cell. */
export type Law = [positions: number, cells: number, draw: (position: bigint, below: Below) => number];

/** A law whose integers fit together: whatever passes keeps its ε. */
export function readLaw(source: Json, epsilon: number): Law {
  only(source, "positions cells shares channels");
  const positions = whole(source.positions);
  const cells = whole(source.cells);
  const bound = expFromBelow(epsilon);
  let end = 0n;
  const draws: Draw[] = source.channels.map((channel: Json) => {
    const [offset, cells, draw] = readChannel(channel, positions - 1n, bound);
    need(offset === end, "offset");
    end += cells;
    return draw;
  });
  const drawn = source.shares !== null; // as one channel need not be
  const shares: bigint[] = drawn ? source.shares.map(whole) : [1n];
  const sum = shares.reduce((a, b) => a + b);
  const shared = shares.length === draws.length && draws.length < 65 && shares.every((share) => share) && !(sum >> 63n);
  need(shared && positions > 1n && positions <= 1n << 26n && end === cells && cells <= 1n << 53n, "law");
  return [
    Number(positions),
    Number(cells),
    (position, below) => {
      let index = 0;
      for (let r = drawn ? below(sum) : 0n; r >= shares[index]!; ) r -= shares[index++]!;
      return Number(draws[index]!(position, below));
    },
  ];
}

/** e^ε·2^128 or a little less: the exponential series in integers, each term rounded down. ε = m / 2^k exactly. */
function expFromBelow(epsilon: number): bigint {
  let k = 0n;
  for (; epsilon % 1; k++) epsilon *= 2;
  let sum = 0n;
  for (let term = 1n << 128n, i = 1n; term; i++) {
    sum += term;
    term = (term * BigInt(epsilon)) / (i << k);
  }
  return sum;
}
