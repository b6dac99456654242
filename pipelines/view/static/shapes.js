// From buckets to curves.
"use strict";

/** The share of values at or below each edge of the buckets. */
function cumulative(probabilities) {
  const sums = new Float64Array(probabilities.length + 1);
  probabilities.forEach((share, index) => (sums[index + 1] = sums[index] + share));
  return sums;
}

/** How far along the axis a value stands. */
const alongAxis = (scale) => (scale === "log" ? Math.log10 : (value) => value);

/** The curve that is drawn, as a function: the share of values at or below one. It is straight within a bucket. */
function curveOf({ probabilities, edges }, scale) {
  const sums = cumulative(probabilities);
  const place = alongAxis(scale);
  return (value) => {
    const after = edges.findIndex((edge) => edge >= value);
    if (after <= 0 || edges[after] === value) return sums.at(after); // of -1, beyond the last edge, the last
    const [from, to] = [place(edges[after - 1]), place(edges[after])];
    return sums[after - 1] + probabilities[after - 1] * ((place(value) - from) / (to - from));
  };
}

/**
 * Share per unit of the axis: of the collection's units on a linear axis, of factors of ten on a logarithmic one, so
 * that areas are shares on either.
 */
function density({ probabilities, edges }, scale) {
  const place = alongAxis(scale);
  return probabilities.map((share, index) => share / (place(edges[index + 1]) - place(edges[index])));
}

const FACTORS = [10, 5, 2, 1.5, 1.2, 1.1, 1.05, 1.02, 1.01, 1.005, 1.002, 1.001];

/** The greatest round factor within which the highest density is a share of 40 % at most. */
const roundFactor = (highest) => FACTORS.find((factor) => highest * Math.log10(factor) <= 0.4) ?? FACTORS.at(-1);

/** A round length, such as 1,000 dollars, in which the highest density is a share of some 3 to 30 %. */
function roundLength(highest, { scale, integer }) {
  if (scale === "log") return Math.log10(roundFactor(highest));
  if (!(highest > 0)) return 1;
  const length = 10 ** Math.round(Math.log10(0.1 / highest));
  if (integer) return Math.max(1, length);
  return length === 1 ? 2 : length; // of one, the unit's name would have to be in the singular
}

/** Of arrays too long for the arguments of Math.min and Math.max. */
const least = (values) => values.reduce((one, other) => Math.min(one, other), Infinity);
const greatest = (values) => values.reduce((one, other) => Math.max(one, other), -Infinity);

const middle = ({ start, end, ahead }) => start / 2 + end / 2 + ahead;

/** The time from one window to the next where none is missing: sliding windows overlap, others stand side by side. */
const pace = (windows) =>
  least(windows.map(({ start, end }, index) => Math.min(end - start, (windows[index + 1]?.start ?? Infinity) - start)));

/** Runs of places whose windows follow one another and have a value: nothing is drawn over what is missing. */
function runs(windows, values) {
  const longest = 1.5 * pace(windows);
  const found = [];
  values.forEach((value, index) => {
    if (Number.isNaN(value)) return;
    const before = index - 1;
    if (found.at(-1)?.at(-1) === before && windows[index].start - windows[before].start <= longest) {
      found.at(-1).push(index);
    } else found.push([index]);
  });
  return found;
}

/** A line through runs, as one list with a null between them. */
const line = (runs, at) => runs.flatMap((run) => [...run.map(at), null]);

/** The outlines of the areas between two lines, as one list with a null between them. */
const ribbon = (runs, there, back) => runs.flatMap((run) => [...run.map(there), ...run.toReversed().map(back), null]);
