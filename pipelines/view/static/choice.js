// What is chosen, and the link that keeps it: the address after #.
"use strict";

/** What there is to choose from; the outline of data.js, once it has come. */
let contents = { version: "none", run: "", unread: 0, collections: [], refused: [], problems: [], notes: {} };
let chosen = readLink();

/**
 * A choice is { collection, window, groups, apart, over, threshold, zoom, sides }: a name; "START-END", or null for the
 * newest whole one; names, and null for all together; whether groups stand side by side, or null for what suits; "mean"
 * or the share of a quantile, or null for what suits; a value, or null for the middle; the part of the domain that is
 * shown as [from, to], or null for all of it; the two sides of a comparison as in sides.js, or null for none.
 */
function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const over = link.get("over");
  const sides = [readSide(link, "one"), readSide(link, "other")];
  const zoom = (link.get("zoom") ?? "").split("~").map(Number);
  return {
    collection: link.get("collection"),
    window: link.get("window"),
    groups: [...(link.has("all") ? [null] : []), ...link.getAll("group")],
    apart: link.has("apart") ? true : link.has("together") ? false : null,
    over: over === null || over === "mean" ? over : Number(over),
    threshold: finite(link.get("threshold")),
    zoom: zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0] < zoom[1] ? zoom : null,
    sides: sides.includes(null) ? null : sides,
  };
}

/** The number that a text of a link is, or null. */
function finite(text) {
  return text && Number.isFinite(Number(text)) ? Number(text) : null;
}

/** What is chosen of a collection before anything is. */
const UNCHOSEN = { window: null, groups: [], apart: null, over: null, threshold: null, zoom: null, sides: null };

function linkTo({ collection, window, groups, apart, over, threshold, zoom, sides }) {
  const link = new URLSearchParams({ collection });
  if (window !== null) link.set("window", window);
  if (groups.includes(null)) link.set("all", "");
  for (const group of groups) if (group !== null) link.append("group", group);
  if (apart !== null) link.set(apart ? "apart" : "together", "");
  if (over !== null) link.set("over", over);
  if (threshold !== null) link.set("threshold", threshold);
  if (zoom !== null) link.set("zoom", zoom.join("~"));
  sides?.forEach((side, place) => writeSide(link, place === 0 ? "one" : "other", side));
  return `#${link}`;
}

/** Three to a dozen groups can be told apart side by side only. */
const standApart = (groups) => groups.length > 1 && (chosen.apart ?? (groups.length > 2 && groups.length <= 12));

const windowKey = ({ start, end }) => `${start}-${end}`;

/** The chosen things themselves; what a link names and the data does not have is told, and replaced. */
function resolve() {
  const { collections } = contents;
  const missing = [];
  const collection = collections.find(({ name }) => name === chosen.collection) ?? collections[0];
  if (chosen.collection !== null && collection.name !== chosen.collection) missing.push("collection");
  const windows = collection.windows;
  const opening = windows.find(({ id }) => id === collection.opens_at);
  const window = windows.find((each) => windowKey(each) === chosen.window) ?? opening;
  if (chosen.window !== null && windowKey(window) !== chosen.window) missing.push("window");
  let groups = collection.groups
    .map((group, index) => ({ ...group, index }))
    .filter(({ name }) => chosen.groups.includes(name));
  if (groups.length < chosen.groups.length) missing.push("group");
  if (groups.length === 0) groups = [{ ...collection.groups[0], index: 0 }];
  return { collection, window, groups, missing };
}

/** Which windows the log cuts may change with windows beside them, so the outline tells it, and no chunk. */
const withCut = (picture, cut) => picture && { ...picture, warnings: [...picture.warnings, ...cut] };

/** What is drawn: the chosen groups with their series, and those of them that have a picture in this window. */
function viewOf(collection, window, groups, pictures, series) {
  const cuts = new Map(collection.windows.map(({ id, cut }) => [id, Object.keys(cut)]));
  const all = groups.map((group, place) => ({
    ...group,
    label: brief(group.label),
    picture: withCut(pictures.groups.find(({ id }) => id === group.id), cuts.get(window.id)),
    series: {
      ...series[place],
      warnings: series[place].warnings.map((own, row) => [...own, ...(cuts.get(series[place].windows[row].id) ?? [])]),
    },
    windows: series[place].windows,
  }));
  const named = { ...collection, label: brief(collection.label), unit: brief(collection.unit) };
  const every = collection.groups.map((group, index) => ({
    ...group,
    index,
    picture: pictures.groups.find(({ id }) => id === group.id),
  }));
  return { collection: named, window, all, every, groups: all.filter(({ picture }) => picture !== undefined) };
}
