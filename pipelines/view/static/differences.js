// How two estimates differ, from the intervals that snapshots store: the numbers and words of `Snapshot.compare`.
"use strict";

const DEVIATE = 1.959963984540054; // of the normal distribution, for an interval of 95 %
const FOUR_IN_FIVE = 0.8416212335729143; // and for a chance of 80 %
const TUNED_REPORTS = 10_000; // at which intervals that hold at all times are narrowest

/**
 * The interval of a difference from those of its parts, by MOVER (Zou and Donner, Construction of confidence limits
 * about effect measures, Statistics in Medicine 27, 2008): parts are { value, low, high }, of independent estimates; a
 * value outside of its interval counts as its end. No difference is beyond `most`; `stretch` makes the interval wider.
 */
function difference(one, other, most = Infinity, stretch = 1) {
  const [first, second] = [one, other].map(({ value, low, high }) => Math.min(high, Math.max(low, value)));
  const value = first - second;
  const low = value - stretch * Math.hypot(first - one.low, other.high - second);
  const high = value + stretch * Math.hypot(one.high - first, second - other.low);
  return { value, low: Math.max(-most, low), high: Math.min(most, high) };
}

/** The difference of two distribution functions at the places of both bands, with a band for all of them at once. */
function bandOfDifferences(one, other, { scale }, stretch = 1) {
  const along = alongAxis(scale);
  const points = [...new Set([...one.cdf_points, ...other.cdf_points])].sort((low, high) => low - high);
  const sides = [one, other].map((picture) => {
    const places = picture.cdf_points.map(along);
    const curve = curveOf(picture, scale);
    return points.map((point) => ({
      value: Math.min(1, Math.max(0, curve(point))),
      low: interpolate(along(point), places, picture.cdf_low),
      high: interpolate(along(point), places, picture.cdf_high),
    }));
  });
  const all = points.map((_, index) => difference(sides[0][index], sides[1][index], 1, stretch));
  const column = (name) => all.map((each) => each[name]);
  return { points, value: column("value"), low: column("low"), high: column("high") };
}

/**
 * How much wider an interval is that holds at all times at once, while reports still arrive and people look again and
 * again: the asymptotic confidence sequence of Waudby-Smith et al. 2024.
 */
function stretchOfMany(one, other) {
  const alpha = 0.05;
  const best = -2 * Math.log(alpha) + Math.log(1 - 2 * Math.log(alpha));
  const reports = 1 / (1 / one.reports + 1 / other.reports);
  const tau = (best * reports) / TUNED_REPORTS;
  return Math.sqrt(((2 * (tau + 1)) / tau) * Math.log(Math.sqrt(tau + 1) / alpha)) / DEVIATE;
}

/** The difference that would have been found in 4 of 5 cases, from an interval. */
const detectable = ({ low, high }, stretch = 1) => ((high - low) / 2) * (1 + FOUR_IN_FIVE / (stretch * DEVIATE));

/** The decimal places that show one digit of a number of this size, and one more where it begins with a 1. */
const decimals = (size) => (size > 0 && size < Infinity ? Math.max(0, Math.ceil(-Math.log10(size / 2))) : 0);

/** Whether an interval leaves no doubt about which side has more. */
const isClear = ({ low, high }) => low > 0 || high < 0;

/** Whether the band leaves zero out anywhere: the two distributions differ there. */
const leavesZero = ({ low, high }) => low.some((bound, index) => bound > 0 || high[index] < 0);

/** A part that is compared: its mean, or the quantile of a share. */
function partOf({ mean, mean_low, mean_high, quantiles }, of) {
  if (of === "mean") return { value: mean, low: mean_low, high: mean_high };
  const [, value, low, high] = quantiles.find(([share]) => share === of);
  return { value, low, high };
}

/** What two pictures can be compared by: quantiles that both have, and the mean. */
function comparable(one, other) {
  const shares = one.quantiles.map(([share]) => share).filter((of) => other.quantiles.some(([share]) => share === of));
  return ["mean", ...shares];
}

/** Whether two sides may have a report in common; then neither intervals nor tests of their difference hold. */
function shareReports(one, other) {
  if (one.window.end <= other.window.start || other.window.end <= one.window.start) return false;
  if (one.group === null || other.group === null) return true; // of all together
  return one.kind === other.kind ? one.kind === "others" || one.group === other.group : one.group !== other.group;
}
