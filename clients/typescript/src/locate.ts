import { count, only, real, type Json } from "./parsing.js";
import { need } from "./refusals.js";

/** How a value becomes a position. Double arithmetic, in exactly this order. */
export function readPlaces(domain: Json, source: Json, positions: number): (value: number) => bigint {
  const { method, round, whole } = source;
  const [low, high] = [real(domain.low), real(domain.high)];
  const even = round === "half_even";
  const steps = positions - +even;
  let points: number[] = [];
  let parts = 1;
  let share: (value: number) => number;

  /** How many points are not above a value: an edge belongs to the bucket above it. */
  const rank = (value: number): number => points.filter((point) => point <= value).length;
  if (method === "scale") {
    only(source, "method whole start length steps round");
    const [start, length] = [real(source.start), real(source.length)];
    need(typeof whole === "boolean" && length > 0, method);
    share = (value) => ((whole ? halfEven(value) : value) - start) / length;
  } else {
    points = source[method].map(real);
    parts = points.length - 1;
    only(source, method === "edges" ? "method edges" : "method knots steps round");
    need(points.every((point, i) => !i || points[i - 1]! < point), method);
    share = (value) => {
      const k = limit(rank(value) - 1, 0, parts - 1);
      return (k + (value - points[k]!) / (points[k + 1]! - points[k]!)) / parts;
    };
  }
  if (method === "edges") need(points.length + 1 === positions, method);
  else need(count(source.steps, 1) === steps && (even || round === "down") && parts > 0, method);
  need(low < high, "low");
  return (value) => {
    need(Number.isFinite(value), "value " + value);
    value = limit(value, low, high);
    const place = method === "edges" ? rank(value) : (even ? halfEven : Math.floor)(share(value) * steps);
    const position = limit(place, 0, positions - 1);
    need(position >= 0, "value " + value); // no number, as where knots are further apart than any double
    return BigInt(position);
  };
}

const limit = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);

function halfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2) ? floor + 1 : floor;
}
