// The band of a distribution function at any value: the numbers of `Snapshot.interval("cdf", value)`.
"use strict";

/** Where values at or below one end on the axis: whole numbers reach to the middle between two of them. */
const reach = ({ integer }, value) => (integer ? Math.floor(value) + 0.5 : value);

/** A line through points at places that rise, at a place; level before the first and behind the last. */
function interpolate(place, places, heights) {
  const after = places.findIndex((each) => each >= place);
  if (after === 0) return heights[0];
  if (after < 0) return heights.at(-1);
  const [from, to] = [places[after - 1], places[after]];
  return heights[after - 1] + ((heights[after] - heights[after - 1]) * (place - from)) / (to - from);
}

/** Bounds of the share of values at or below one; at the ends of the domain, nothing and everything is. */
function bandAt({ cdf_points, cdf_low, cdf_high, low, high }, collection, value) {
  const along = alongAxis(collection.scale);
  const at = reach(collection, value);
  const places = cdf_points.map(along);
  return {
    low: at >= reach(collection, high) ? 1 : interpolate(along(at), places, cdf_low),
    high: at <= (collection.integer ? low - 0.5 : low) ? 0 : interpolate(along(at), places, cdf_high),
  };
}

/** The share of values above one, with its interval where the picture has a band. */
function shareAbove(picture, collection, value) {
  const share = 1 - curveOf(picture, collection.scale)(reach(collection, value));
  const inside = (each) => Math.min(1, Math.max(0, each));
  if (picture.cdf_points === null) return { share: inside(share) };
  const { low, high } = bandAt(picture, collection, value);
  return { share: inside(share), low: 1 - high, high: 1 - low };
}
