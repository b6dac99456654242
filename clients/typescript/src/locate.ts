import { entries, list, real, text, truth, type Json } from "./parsing.js";
import { need } from "./refusals.js";

/** How a value becomes a position. Double arithmetic, in exactly this order. */
export function readPlaces(domain: Json, source: Json, positions: number): (value: number) => bigint {
  const [scale, least, most, integer] = entries(domain, "scale low high integer");
  text(scale, /^(linear|log)$/);
  truth(integer);
  const low = real(least);
  const high = real(most);
  const { method, round } = source;
  const even = round === "half_even";
  const steps = positions - +even;
  let given = source.steps;
  let place: (value: number) => number;
  if (method === "scale") {
    const [, whole, begin, span] = entries(source, "method whole start length steps round");
    const start = real(begin);
    const length = real(span);
    truth(whole);
    need(length > 0 && (even || round === "down"), method);
    place = (value) => (((whole ? halfEven(value) : value) - start) / length) * steps;
  } else {
    const points = list(source[method], 65535, real);
    const parts = points.length - 1;
    need(points.every((point, i) => !i || points[i - 1]! < point) && isFinite(points[parts]! - points[0]!), "locate");

    /** How many points are not above a value: an edge belongs to the bucket above it. */
    const rank = (value: number): number => points.filter((point) => point <= value).length;
    if (method === "edges") {
      entries(source, "method edges");
      given = parts + 2;
      place = rank;
    } else {
      entries(source, "method knots steps round");
      need(method === "knots" && even && parts, "method");
      place = (value) => {
        const k = limit(rank(value) - 1, 0, parts - 1);
        return ((k + (value - points[k]!) / (points[k + 1]! - points[k]!)) / parts) * steps;
      };
    }
  }
  need(given === steps && low < high, "steps");
  return (value) => {
    need(Number.isFinite(value), "value " + value);
    return BigInt(limit((even ? halfEven : Math.floor)(place(limit(value, low, high))), 0, positions - 1));
  };
}

const limit = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);

function halfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2) ? floor + 1 : floor;
}
