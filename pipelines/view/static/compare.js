// Two groups or windows compared: a sentence, both curves, the curve of differences, and a table.
"use strict";

/** Why two sides cannot be compared, or null. */
function obstacle(one, other) {
  for (const { problem } of [one, other]) if (problem) return [problem];
  for (const { picture, label } of [one, other]) {
    if (picture === undefined) return ["There is nothing of ", named(label), " there."];
    if (picture.status === "no_reports") return ["There are no reports of ", named(label), "."];
  }
  if (shareReports(one, other)) {
    if (one.group === other.group && one.kind === other.kind && one.window === other.window)
      return ["This is one and the same: choose another group or window."];
    if (one.group === other.group && one.kind === other.kind)
      return ["These windows overlap: reports that are in both would be compared with themselves."];
    const [part] = [one, other].filter(({ kind, group }) => kind === "group" && group !== null);
    return [
      "Both hold the same reports in part, which would be compared with themselves. Compare ",
      part ? named(brief(part.entry.label)) : "a group",
      " with the other groups instead, or with one of them.",
    ];
  }
  if (one.picture.low !== other.picture.low || one.picture.high !== other.picture.high)
    return ["Their domains differ: one ends where the other does not."];
  return null;
}

/** The difference of one number in a sentence, as `Comparison.sentence` says it. */
function differenceSentence(one, other, of, collection, stretch) {
  const most = collection.high - collection.low;
  const found = difference(partOf(one.picture, of), partOf(other.picture, of), most, stretch);
  const { value, low, high } = found;
  const unit = () => (collection.unit ? [" ", named(collection.unit)] : []);
  const what = of === "mean" ? "mean" : "median";
  const [first, second] = [named(one.label), named(other.label)];
  if (!isClear(found)) {
    const least = detectable(found, stretch);
    return [
      ...[make("b", "No difference"), " between ", first, " and ", second, " was detected; in 4 of 5 cases, one of "],
      ...[make("b", fixed(least, decimals(least))), ...unit(), ` in the ${what} would have been.`],
    ];
  }
  const [near, far] = [low, high].map(Math.abs).sort((one, other) => one - other);
  const places = Math.max(decimals((high - low) / 2), decimals(near)); // what is not zero must not look like it
  return [
    ...[`The ${what} of `, first, " is ", make("b", fixed(Math.abs(value), places)), ...unit()],
    ...[make("b", low > 0 ? " higher" : " lower"), " than that of ", second],
    `, 95 % interval ${fixed(near, places)} to ${fixed(far, places)}.`,
  ];
}

/** Where the distribution functions differ most surely, in a sentence. */
function bandSentence(one, other, band, collection) {
  if (!leavesZero(band)) return ["The curves as a whole are compatible with one distribution."];
  const excess = band.points.map((_, index) => Math.max(band.low[index], -band.high[index]));
  const place = excess.indexOf(greatest(excess));
  const [more, less] = band.value[place] > 0 ? [one, other] : [other, one];
  const [near, far] = [band.low[place], band.high[place]].map(Math.abs).sort((low, high) => low - high);
  return [
    "The curves differ: at or below ",
    number(collection.integer ? Math.floor(band.points[place]) : band.points[place]),
    ...(collection.unit ? [" ", named(collection.unit)] : []),
    ` lie ${number(100 * near, 2)} to ${number(100 * far, 2)} percentage points more of the values of `,
    named(more.label),
    " than of those of ",
    named(less.label),
    " (95 % band).",
  ];
}

/** The list of both sides' choices; kept while it is right, as it may be open. */
function fillSides(collection) {
  const wanted = JSON.stringify([collection.groups.map(({ id }) => id), collection.windows.map(({ id }) => id)]);
  if (at("sides").dataset.options === wanted) return;
  at("sides").dataset.options = wanted;
  const option = (value, words) => make("option", words, { value });
  for (const name of ["one", "other"]) {
    at(`${name}-group`).replaceChildren(
      option("", "choose …"),
      ...collection.groups.map((group, index) => option(`group ${index}`, brief(group.label))),
      ...(canSumOthers(collection)
        ? collection.groups.flatMap((group, index) =>
            group.name === null ? [] : [option(`others ${index}`, `groups other than ${brief(group.label)}`)],
          )
        : []),
    );
    at(`${name}-window`).replaceChildren(
      option("", "the window above"),
      ...collection.windows.map((each) => option(windowKey(each), each.label)),
    );
  }
}

function showSides(collection) {
  fillSides(collection);
  at("compare").hidden = collection.groups.length < 2 && collection.windows.length < 2;
  ["one", "other"].forEach((name, place) => {
    const side = chosen.sides?.[place];
    const index = collection.groups.findIndex((group) => group.name === side?.group);
    at(`${name}-group`).value = side && index >= 0 ? `${side.kind} ${index}` : "";
    at(`${name}-window`).value = side?.window ?? "";
    at(`${name}-window`).disabled = !side;
  });
  at("no-sides").hidden = !chosen.sides;
}

/** What is told of two sides; returns what is left to be drawn. */
function showComparison({ collection }, sides) {
  at("comparison").hidden = sides === undefined;
  if (sides === undefined) return [];
  const [one, other] = sides.some(({ problem }) => problem) ? sides : nameSides(sides);
  const hindrance = obstacle(one, other);
  at("compared").hidden = hindrance !== null;
  if (hindrance) {
    at("verdict").replaceChildren(...hindrance);
    at("caveats").replaceChildren();
    return [];
  }
  if (other.index % COLOURS === one.index % COLOURS) other.index = one.index + 1;
  const wanted = comparable(one.picture, other.picture);
  const main = wanted.includes(0.5) ? 0.5 : "mean";
  const banded = [one, other].every(({ picture }) => picture.cdf_points !== null);
  const growing = [one, other].some(({ picture }) => isEarly(picture));
  const stretch = growing ? stretchOfMany(one.picture, other.picture) : 1;
  const band = banded ? bandOfDifferences(one.picture, other.picture, collection, stretch) : null;
  at("verdict").replaceChildren(
    ...differenceSentence(one, other, main, collection, stretch),
    ...(band ? [" ", ...bandSentence(one, other, band, collection)] : []),
  );
  at("caveats").replaceChildren(...caveats(one, other, growing));
  at("compared-curves").hidden = band === null;
  comparedTable = () => differencesTable(one, other, wanted, band, collection, stretch);
  fillTable(document.querySelector("details[data-table=differences]"));
  if (band === null) return [];
  const view = { collection, groups: [one, other] };
  return [
    () => drawBoth(at("both"), view),
    () => drawDifferences(at("differences"), view, band),
  ];
}

/** Whether reports may still come; others' estimate has no panes, but knows. */
const isEarly = ({ early, movement }) => early ?? movement.panes.at(-1).timing === "early";

/** What a reader should know before relying on it. */
function caveats(one, other, growing) {
  const warned = [one, other].filter(({ picture }) => picture.warnings.length);
  return [
    ...warned.map(({ label, picture }) => make("p", [named(label), `: ${shortly(picture.warnings)}.`])),
    ...(growing ? [make("p", "Reports still arrive: intervals are wide enough for many looks.")] : []),
    make("p", "Intervals are for this comparison alone: of twenty without any difference, one may show one by chance."),
  ];
}

let comparedTable = () => "";

/** Both curves, in their bands. */
function drawBoth(plot, { collection, groups }) {
  const traces = groups.map((side) => cdfTraces(side, collection, (each) => groupColour(side.index, each), 0.2));
  const names = groups.map(({ label }) => label).join(" and ");
  draw(
    plot,
    `Distribution functions of ${collection.label} with their 95 % bands: ${names}`,
    [...traces.flatMap(({ band }) => band ?? []), ...traces.map(({ curve }) => curve)],
    layout(290, {
      margin: { l: 46, r: 24, t: 12, b: 40 },
      hovermode: "x unified",
      xaxis: domainAxis(collection, groups),
      yaxis: { range: [0, 101], ticksuffix: " %" },
    }),
  );
  at("both-names").replaceChildren(...groups.map((side) => make("span", groupName(side))));
}

function drawDifferences(plot, { collection, groups: [one, other] }, { points, value, low, high }) {
  const points100 = (each) => each.map((share) => 100 * share);
  const shape = stepped(collection, points) ? "hvh" : "linear";
  draw(
    plot,
    `Distribution function of ${one.label} minus that of ${other.label}, with its 95 % band`,
    [
      {
        type: "scatter",
        mode: "lines",
        name: "95 % band",
        hoverinfo: "skip",
        x: [...points, ...points.toReversed()],
        y: points100([...high, ...low.toReversed()]),
        line: { width: 0, shape },
        fill: "toself",
        fillcolor: colour("accent", 0.2),
      },
      {
        type: "scatter",
        mode: "lines",
        name: "difference",
        x: points,
        y: points100(value),
        text: points.map((point, index) => {
          const [middle, from, to] = [value, low, high].map((each) => number(100 * each[index], 2));
          return plain(`${middle} points [${from}, ${to}] at or below ${number(point)}${unitOf(collection)}`);
        }),
        hovertemplate: "%{text}<extra></extra>",
        line: { width: 1.75, color: colour("accent"), shape },
      },
    ],
    layout(290, {
      margin: { l: 46, r: 24, t: 12, b: 40 },
      hovermode: "x unified",
      xaxis: domainAxis(collection, [one, other]),
      yaxis: { zeroline: true, zerolinecolor: colour("ink"), title: { text: "percentage points" } },
    }),
  );
}

function listenToSides() {
  const change = (place, what) => {
    const { collection, window } = resolve();
    const own = { kind: "group", group: null, window: null, ...chosen.sides?.[place], ...what };
    const other = chosen.sides?.[1 - place] ?? suggestSide(own, collection, window);
    choose({ sides: place === 0 ? [own, other] : [other, own] });
  };
  ["one", "other"].forEach((name, place) => {
    at(`${name}-group`).addEventListener("change", ({ target }) => {
      const [kind, index] = target.value.split(" ");
      if (kind === "") choose({ sides: null });
      else change(place, { kind, group: resolve().collection.groups[index].name });
    });
    at(`${name}-window`).addEventListener("change", ({ target }) => change(place, { window: target.value || null }));
  });
  at("no-sides").addEventListener("click", () => choose({ sides: null }));
}
