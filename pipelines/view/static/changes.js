// Changes over time: the windows that differ from those before them, as the tallies tell.
"use strict";

const MOST_CHANGES = 12; // that are told in sentences, the newest

/** Of a collection, { comparisons, rate, found }, or { problem } in words; null where nobody can tell. */
async function fetchChanges({ tallied, groups, windows }) {
  if (!tallied || windows.length < 2) return null;
  return fetchChunk(contents.run, { id: `${groups[0].id}/changes`, stamp: groups.map(({ stamp }) => stamp).join() });
}

/** Changes of the chosen groups, each with its group and its window. */
function changesOf({ all, collection }, changes) {
  return (changes?.found ?? []).flatMap((change) => {
    const group = all.find(({ id }) => id === change.group);
    const window = collection.windows.find(({ id }) => id === change.window);
    return group && window ? [{ ...change, group, window }] : [];
  });
}

/** Marks above the picture over time, which say what changed when they are pointed at. */
const changeMarks = (found) =>
  found.map(({ group, window, sentence }) => ({
    x: middle(window),
    y: 1,
    yref: "paper",
    yanchor: "bottom",
    text: "▼",
    showarrow: false,
    font: { size: 14, color: groupColour(group.index) },
    hovertext: plain(sentence),
    captureevents: true,
  }));

/** What is told of changes; returns what is left to be drawn. */
function showChanges(view, changes) {
  const found = changesOf(view, changes).toReversed();
  const elsewhere = (changes?.found?.length ?? 0) - found.length;
  const words =
    changes === null
      ? []
      : changes.problem
        ? [make("p", `Whether windows differ from those before them cannot be told: ${changes.problem}.`)]
        : [
            make("p", [
              found.length ? `${counted(found.length, "change")} found` : "No change found",
              elsewhere ? `, and ${count(elsewhere)} in groups that are not shown` : "",
              `, in ${counted(changes.comparisons, "comparison")} of windows with those before them. Where nothing `,
              `changes, at most ${percent(changes.rate, 1)} of collections ever have a false alarm.`,
            ]),
          ];
  const items = found
    .slice(0, MOST_CHANGES)
    .map(({ group, window, sentence }) =>
      make("li", [swatch(group.index), make("span", `${window.label}: `), named(sentence)]),
    );
  at("changes").replaceChildren(...words, ...(items.length ? [make("ul", items)] : []));
  return found.length ? [() => drawTime(at("time"), view, showQuantities(view), changeMarks(found))] : [];
}
