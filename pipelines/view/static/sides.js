// The two sides of a comparison: how a link names them, what they are in the data, and their pictures.
"use strict";

/**
 * A side is { kind, group, window }: kind "group" with a group's name, or null for all together, or kind "others" with
 * the name of the group that is left out; window is "START-END", or null for the one that is shown.
 */
function readSide(link, name) {
  const [, kind, group] = /^(all|group|others)(?: ([^]*))?$/.exec(link.get(name) ?? "") ?? [];
  if (kind === undefined || (kind === "all") !== (group === undefined)) return null;
  const window = link.get(`${name}-window`);
  return { kind: kind === "all" ? "group" : kind, group: group ?? null, window };
}

function writeSide(link, name, { kind, group, window }) {
  link.set(name, group === null ? "all" : `${kind} ${group}`);
  if (window !== null) link.set(`${name}-window`, window);
}

const sameSide = (one, other) => ["kind", "group", "window"].every((part) => one[part] === other[part]);

/** The sides as things of the outline, or undefined where the data does not have what a link names. */
function resolveSides(collection, window) {
  return chosen.sides?.map((side) => {
    const index = collection.groups.findIndex(({ name }) => name === side.group);
    const at = side.window === null ? window : collection.windows.find((each) => windowKey(each) === side.window);
    if (index < 0 || at === undefined || (side.kind === "others" && side.group === null)) return undefined;
    const name = collection.groups[index];
    return { ...side, index: side.kind === "others" ? collection.groups.length : index, entry: name, window: at };
  });
}

/** A side with its picture; undefined where there is none, and a problem in words where it cannot be had. */
async function fetchSide(side) {
  if (side === undefined) return { problem: "The link names a group or a window that is not here." };
  try {
    if (side.kind === "others") {
      const id = `${side.window.id}/others/${side.entry.id}`;
      const picture = await fetchChunk(contents.run, { id, stamp: side.window.stamp });
      return picture.problem ? { ...side, problem: `They cannot be had: ${picture.problem}.` } : { ...side, picture };
    }
    const { groups } = await fetchChunk(contents.run, side.window);
    return { ...side, picture: groups.find(({ id }) => id === side.entry.id) };
  } catch (error) {
    if (LIVE || side.kind !== "others") throw error;
    return { ...side, problem: "This file does not hold that estimate; hushgram view --serve makes it." };
  }
}

/** What two sides are called: by their groups where these differ, by their windows where those do. */
function nameSides([one, other]) {
  const groups = one.kind !== other.kind || one.group !== other.group;
  const windows = one.window !== other.window;
  const others = (side, beside) =>
    beside.kind === "group" && beside.group === side.group
      ? "the other groups"
      : `groups other than ${brief(side.entry.label)}`;
  const name = (side, beside) => (side.kind === "others" ? others(side, beside) : brief(side.entry.label));
  return [
    [one, other],
    [other, one],
  ].map(([side, beside]) => ({
    ...side,
    label: [...(groups ? [name(side, beside)] : []), ...(windows ? [side.window.label] : [])].join(", ") || "this",
  }));
}

/** What suits a first side: the other groups, another group, or the window before. */
function suggestSide({ kind, group, window }, collection, shown) {
  if (kind === "group" && group !== null && canSumOthers(collection)) return { kind: "others", group, window };
  const another = collection.groups.find(({ name }) => name !== null && name !== group);
  if (group !== null && another !== undefined) return { kind: "group", group: another.name, window };
  const place = collection.windows.findIndex((each) => (window === null ? each === shown : windowKey(each) === window));
  const before = collection.windows.findLast(({ end }) => end <= collection.windows[place].start);
  const behind = collection.windows.find(({ start }) => start >= collection.windows[place].end);
  const beside = before ?? behind;
  return { kind, group, window: beside === undefined ? window : windowKey(beside) };
}

/** Whether the other groups are more than one, and can be estimated together. */
const canSumOthers = ({ tallied, groups }) => tallied && groups.filter(({ name }) => name !== null).length > 2;
