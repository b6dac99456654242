// What is chosen, and the link that keeps it: the address after #.
"use strict";

/** What there is to choose from; the outline of data.js, once it has come. */
let contents = { version: "none", run: "", unread: 0, collections: [], refused: [], problems: [], notes: {} };
let chosen = readLink();

/**
 * A choice is { collection, window, groups, apart, over }: a name; "START-END", or null for the newest whole one; names,
 * and null for all together; whether groups stand side by side; "mean" or the share of a quantile, or null for what
 * suits.
 */
function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const over = link.get("over");
  return {
    collection: link.get("collection"),
    window: link.get("window"),
    groups: [...(link.has("all") ? [null] : []), ...link.getAll("group")],
    apart: link.has("apart"),
    over: over === null || over === "mean" ? over : Number(over),
  };
}

function linkTo({ collection, window, groups, apart, over }) {
  const link = new URLSearchParams({ collection });
  if (window !== null) link.set("window", window);
  if (groups.includes(null)) link.set("all", "");
  for (const group of groups) if (group !== null) link.append("group", group);
  if (apart) link.set("apart", "");
  if (over !== null) link.set("over", over);
  return `#${link}`;
}

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
  return { collection: named, window, all, groups: all.filter(({ picture }) => picture !== undefined) };
}
