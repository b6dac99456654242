// Tables: the numbers behind every picture, rounded; the exact ones of the files are cells' titles, and in the CSV.
"use strict";

/** An element with text or elements in it; text is text, whatever it holds. */
function make(tag, content, properties = {}) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...[content].flat());
  return element;
}

/** A name from outside, which must not turn the direction of what stands beside it. */
const named = (label) => make("bdi", label);

function swatch(index) {
  const found = make("span", "", { className: "swatch" });
  found.style.borderTopColor = groupColour(index);
  found.style.borderTopStyle = { solid: "solid", dash: "dashed", dot: "dotted", dashdot: "double" }[groupDash(index)];
  return found;
}

const groupName = ({ index, label }) => [swatch(index), named(label)];

const isKnown = (value) => value !== null && value !== undefined && !Number.isNaN(value);

/** In full; what is not known is a dash. */
const full = (value) => (isKnown(value) ? String(value) : "–");

/** To a person's digits: whole numbers as they are, others with five. */
function shortened(value) {
  if (typeof value !== "number" || !isKnown(value)) return full(value);
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? count(value) : number(value, 5);
}

/** Numbers of one cell, rounded, with the full ones as its title. */
const cellOf = (...values) =>
  make("span", values.map(shortened).join(", "), { title: values.map(full).join(", ") });

/** The same of words that may be from outside. */
const namedCell = (values) =>
  make("span", named(values.map(shortened).join(", ")), { title: values.map(full).join(", ") });

/** Columns are { head, text }, with `text` for words, which stand to the left; rows are lists of cells' contents. */
function table(columns, rows) {
  const cell = (tag) => (content, index) => make(tag, content, { className: columns[index].text ? "text" : "" });
  const head = make(
    "tr",
    columns.map(({ head }, index) => {
      const made = cell("th")(head, index);
      made.scope = "col";
      return made;
    }),
  );
  return make("table", [
    make("thead", head),
    make(
      "tbody",
      rows.map((row) => make("tr", row.map(cell("td")))),
    ),
  ]);
}

const shortly = (warnings) => warnings.map((warning) => contents.notes[warning].short).join("; ");

const text = (head) => ({ head, text: true });
const figure = (head) => ({ head, text: false });
const headOf = ({ label }, what) => figure([named(label), `, ${what}`]);

const windowHead = ({ clocks }) => `window (${clocks})`;

/** By the name of a picture, the table behind it. */
const TABLES = {
  reports: ({ collection, all: groups }) =>
    table(
      [
        text(windowHead(collection)),
        text("group"),
        figure("reports"),
        figure("panes"),
        text("best pane"),
        text("warnings"),
      ],
      groups.flatMap(({ label, windows, series }) =>
        windows.map((window, row) => [
          window.label,
          named(label),
          cellOf(series.reports[row]),
          cellOf(series.panes[row]),
          timingName(series.timings[row]),
          shortly(series.warnings[row]),
        ]),
      ),
    ),

  everything: ({ groups }) => {
    const interval = ({ mean, mean_low, mean_high }) => [mean, mean_low, mean_high];
    const variance = ({ variance, variance_low, variance_high }) => [variance, variance_low, variance_high];
    const shares = [...new Set(groups.flatMap(({ picture }) => picture.quantiles.map(([share]) => share)))];
    const quantile = (share) => (picture) => picture.quantiles.find(([each]) => each === share)?.slice(1) ?? [];
    const rows = [
      ["reports", ({ reports }) => [reports]],
      ["mean, 95 % from, to", interval],
      ["variance, 95 % from, to", variance],
      ...shares.map((share) => [`${quantileName(share)}, 95 % from, to`, quantile(share)]),
      ["p-value of the test of fit", ({ fit }) => [fit]],
      ["share at a heavy low end, high end", ({ heavy_low_end, heavy_high_end }) => [heavy_low_end, heavy_high_end]],
      ["steps of the estimator", ({ iterations }) => [iterations]],
      ["settled", ({ converged }) => [converged ? "yes" : "no"]],
      ["status", ({ status }) => [status]],
      ["estimator", ({ estimator }) => [estimator]],
      ["revisions of the collection", ({ revisions }) => revisions],
      ["what intervals assume", ({ intervals }) => [intervals?.replaceAll("_", " ")]],
      ["ε and mechanism of devices", ({ epsilon, mechanism }) => [epsilon, mechanism]],
      ["ε of the tally", ({ central_epsilon }) => [central_epsilon]],
      ["error of the curve if 1 % lie", ({ lying_bound }) => [lying_bound]],
      ["version of hushgram", ({ software }) => [software]],
    ];
    return table(
      [text("what"), ...groups.map((group) => figure(groupName(group)))],
      rows.map(([what, of]) => [what, ...groups.map(({ picture }) => namedCell(of(picture)))]),
    );
  },

  density: ({ collection, groups }) => {
    const known = groups.filter(({ picture }) => picture.probabilities !== null);
    return sideBySide(
      known,
      ({ picture }) => picture.edges.slice(0, -1),
      collection,
      ["from", "to"],
      (group) => [[headOf(group, "share"), (row) => group.picture.probabilities[row]]],
      (picture, row) => [picture.edges[row], picture.edges[row + 1]],
    );
  },

  cdf: ({ collection, groups }) => {
    const known = groups.filter(({ picture }) => picture.probabilities !== null);
    const places = ({ cdf_points, edges }) => cdf_points ?? edges;
    return sideBySide(
      known,
      ({ picture }) => places(picture),
      collection,
      ["at or below"],
      (group) => {
        const { picture } = group;
        const curve = curveOf(picture, collection.scale);
        return [
          [headOf(group, "share"), (row) => curve(places(picture)[row])],
          [headOf(group, "band from"), (row) => picture.cdf_low?.[row]],
          [headOf(group, "band to"), (row) => picture.cdf_high?.[row]],
        ];
      },
      (picture, row) => [places(picture)[row]],
    );
  },

  mean: ({ groups }) =>
    table(
      [text("group"), figure("mean"), figure("95 % from"), figure("to")],
      groups.map(({ label, picture }) => [
        named(label),
        cellOf(picture.mean),
        cellOf(picture.mean_low),
        cellOf(picture.mean_high),
      ]),
    ),

  time: ({ collection, all: groups }, wanted) =>
    table(
      [
        text(windowHead(collection)),
        text("group"),
        text("what"),
        figure("value"),
        figure("95 % from"),
        figure("to"),
        figure("reports"),
      ],
      groups.flatMap(({ label, windows, series }) =>
        wanted.flatMap((of) => {
          const { name: what, value, low, high } = quantity(series, of);
          return windows.map((window, row) => [
            window.label,
            named(label),
            what,
            cellOf(value[row]),
            cellOf(low[row]),
            cellOf(high[row]),
            cellOf(series.reports[row]),
          ]);
        }),
      ),
    ),

  panes: ({ groups }) =>
    table(
      [
        text("group"),
        text("pane"),
        figure("index"),
        figure("generation"),
        figure("reports"),
        figure("mean"),
        figure("95 % from"),
        figure("to"),
        figure("median"),
        figure("95 % from"),
        figure("to"),
        text("warnings"),
      ],
      groups.flatMap(({ label, picture: { movement } }) =>
        movement.panes.map((pane, row) => {
          const median = quantity(movement, 0.5);
          return [
            named(label),
            timingName(pane.timing),
            cellOf(pane.index),
            cellOf(pane.generation),
            cellOf(movement.reports[row]),
            cellOf(movement.mean[row]),
            cellOf(movement.mean_low[row]),
            cellOf(movement.mean_high[row]),
            cellOf(median.value[row]),
            cellOf(median.low[row]),
            cellOf(median.high[row]),
            shortly(movement.warnings[row]),
          ];
        }),
      ),
    ),

  differences: () => comparedTable(),
};

/** Both sides and their difference, number by number, then along the curve of differences. */
function differencesTable(one, other, wanted, band, { low, high }, stretch) {
  const interval = ({ value, low, high }) => [value, low, high].map((each) => cellOf(each));
  const trio = (label) => [figure(label), figure("95 % from"), figure("to")];
  const numbers = table(
    [text("what"), ...trio(named(one.label)), ...trio(named(other.label)), ...trio("difference")],
    wanted.map((of) => {
      const parts = [one, other].map(({ picture }) => partOf(picture, of));
      const all = [...parts, difference(...parts, high - low, stretch)];
      return [of === "mean" ? of : quantileName(of), ...all.flatMap(interval)];
    }),
  );
  if (band === null) return numbers;
  const along = table(
    [figure("at or below"), ...trio("difference of shares")],
    band.points.map((point, row) => [
      cellOf(point),
      ...interval({ value: band.value[row], low: band.low[row], high: band.high[row] }),
    ]),
  );
  return make("div", [numbers, along]);
}

/** Groups next to one another where they share their places, one below the other where they do not. */
function sideBySide(groups, places, { unit }, heads, columnsOf, placeOf) {
  const sets = new Map();
  for (const group of groups) {
    const key = String(places(group));
    sets.set(key, [...(sets.get(key) ?? []), group]);
  }
  return make(
    "div",
    [...sets.values()].map((together) => {
      const columns = together.flatMap(columnsOf);
      const rows = Array.from(places(together[0]), (_, row) => [
        ...placeOf(together[0].picture, row).map((value) => cellOf(value)),
        ...columns.map(([, at]) => cellOf(at(row))),
      ]);
      return table(
        [
          ...heads.map((head) => figure(unit ? [head, " (", named(unit), ")"] : head)),
          ...columns.map(([head]) => head),
        ],
        rows,
      );
    }),
  );
}

/** What is chosen, a row for each group, rounded as in the terminal; the full number is the cell's title. */
function numbersTable({ collection, groups }) {
  const rounded = (words, ...values) => make("span", words, { title: values.map(full).join(", ") });
  const distributed = groups.some(({ picture }) => picture.quantiles.length);
  const warned = groups.some(({ picture }) => picture.warnings.length);
  const columns = [
    text("group"),
    figure("reports"),
    figure("mean"),
    ...(distributed ? [figure("median"), figure("5 % … 95 %")] : []),
    ...(warned ? [text("warnings")] : []),
  ];
  return table(
    columns,
    groups.map((group) => {
      const { reports, mean, mean_low, mean_high, quantiles, warnings } = group.picture;
      const at = (share) => quantiles.find(([each]) => each === share);
      const [low, median, high] = [0.05, 0.5, 0.95].map(at);
      const spread = distributed
        ? [
            median ? rounded(within(...median.slice(1)), ...median.slice(1)) : "–",
            low && high ? rounded(`${number(low[1])} … ${number(high[1])}`, low[1], high[1]) : "–",
          ]
        : [];
      return [
        groupName(group),
        rounded(count(reports), reports),
        rounded(plusMinus(mean, mean_low, mean_high), mean, mean_low, mean_high),
        ...spread,
        ...(warned ? [shortly(warnings)] : []),
      ];
    }),
  );
}

function refusedTable(refused) {
  const most = Math.max(1, ...refused.map(({ reports }) => reports));
  const rows = refused.map(({ reason, words, reports, unknown, example }) => {
    const bar = make("span", "", { className: "bar" });
    bar.style.width = `${(7 * reports) / most}rem`;
    return [
      [make("b", reason.replaceAll("_", " ")), make("div", words)],
      [bar, count(reports)],
      unknown ? count(unknown) : "–",
      named(example),
    ];
  });
  const made = table([text("reason"), figure("reports"), figure("unreadable places"), text("for example")], rows);
  for (const row of made.tBodies[0].rows) row.cells[3].classList.add("long");
  return made;
}

const problemsTable = (problems) =>
  table(
    [text("file"), text("why")],
    problems.map(({ file, what }) => [named(file), named(what)]),
  );
