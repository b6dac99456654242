import { below as ownBelow, type Below } from "./below.js";
import { readChannel, type Draw } from "./channel.js";
import { entries, list, natural, type Json } from "./parsing.js";
import { need } from "./refusals.js";

/** The number of positions, that of cells, and how a position becomes a cell. */
export type Law = [positions: number, cells: number, draw: (position: bigint, below?: Below) => number];

/** A law whose integers fit together: whatever passes keeps its ε. */
export function readLaw(source: Json, epsilon: number): Law {
  const [given, total, weights, channels] = entries(source, "positions cells shares channels");
  const positions = natural(given);
  const cells = natural(total);
  const bound = expFromBelow(epsilon);
  let end = 0n;
  const draws = list(channels, 64, (channel): Draw => {
    const [cells, draw] = readChannel(channel, end, positions - 1n, bound);
    end += cells;
    return draw;
  });
  const shares = weights === null ? [1n] : list(weights, 64, natural);
  const sum = shares.reduce((a, b) => a + b);
  const shared = shares.length === draws.length && !(sum >> 63n);
  need(shared && positions > 1n && positions <= 1n << 26n && end === cells && cells > 1n && cells <= 1n << 53n, "law");
  return [
    Number(positions),
    Number(cells),
    (position, below = ownBelow) => {
      let index = 0;
      for (let r = weights ? below(sum) : 0n; r >= shares[index]!; ) r -= shares[index++]!;
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
