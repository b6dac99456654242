// Pictures over time: reports in each window, quantiles over windows, and one window from pane to pane.
"use strict";

const SYMBOLS = new Map([
  ["early", "circle-open"],
  ["on_time", "circle"],
  ["late", "diamond"],
]);
const MANY = 150; // more windows than this are an area, not bars of their own
const FEW = 30; // up to this many windows have points with bars; more have a line in a ribbon

function drawReports(element, { collection, window, all: [first] }, choose) {
  const { series, windows, label } = first;
  const width = 0.86 * pace(windows);
  const most = greatest(series.reports);
  const whole = { dtick: 1, range: [0, Math.max(1, most)] };
  const said = windows.map((each, index) => {
    const notes = series.warnings[index].map((name) => `<br>${contents.notes[name].short}`).join("");
    return `${each.label}<br>${count(series.reports[index])} reports${notes}`;
  });
  // Three sets of bars, over one another: all, those with a warning, the chosen one. Many bars are an area.
  const every = windows.map((_, index) => index);
  const set = (indices, fill) => ({
    type: "bar",
    x: indices.map((index) => middle(windows[index])),
    y: indices.map((index) => series.reports[index]),
    width,
    marker: { color: fill },
    hovertext: indices.map((index) => said[index]),
    hoverinfo: "text",
    customdata: indices,
  });
  const area = {
    ...set(every),
    type: "scatter",
    mode: "lines",
    line: { shape: "hvh", width: 0 },
    fill: "tozeroy",
    fillcolor: colour("bar"),
  };
  draw(
    element,
    `Reports of ${label} in each window of ${collection.label}`,
    [
      windows.length > MANY ? area : set(every, colour("bar")),
      set(
        every.filter((index) => series.warnings[index].length),
        colour("warn"),
      ),
      set(
        every.filter((index) => windows[index].id === window.id),
        colour("accent"),
      ),
    ],
    layout(110, {
      margin: { l: 54, r: 14, t: 4, b: 36 },
      barmode: "overlay",
      hovermode: "x",
      dragmode: false,
      xaxis: { ...dates(element), ticks: "" },
      yaxis: { rangemode: "tozero", nticks: 3, tickformat: "~s", ...(most < 5 ? whole : {}) },
    }),
  );
  element.removeAllListeners("plotly_click");
  element.on("plotly_click", ({ points }) => choose(windows[points[0].customdata]));
}

/** A column of a series with its interval: the mean, or the quantile of a share. */
function quantity(series, of) {
  if (of === "mean")
    return {
      name: "mean",
      value: Array.from(series.mean),
      low: Array.from(series.mean_low),
      high: Array.from(series.mean_high),
    };
  const place = series.shares.indexOf(of);
  const column = (matrix) =>
    series.reports.map((_, row) => (place < 0 ? NaN : matrix[row * series.shares.length + place]));
  return { name: quantileName(of), value: column(series.value), low: column(series.low), high: column(series.high) };
}

function drawTime(element, { collection, window, all: groups }, wanted, marks = []) {
  const few = groups.every(({ windows }) => windows.length <= FEW);
  const beside = besides(groups, 0.06);
  const traces = groups.flatMap((group, place) =>
    wanted.flatMap((of) => overTime(collection, group, of, few, few ? beside[place] : 0)),
  );
  const names = groups.length === 1 && wanted.length > 1 ? wanted.map((of) => lastName(collection, groups[0], of)) : [];
  const what = wanted.map((of) => (of === "mean" ? "mean" : quantileName(of))).join(", ");
  const words = `${what} of ${collection.label} over time, with 95 % intervals`;
  draw(
    element,
    words,
    traces,
    layout(320, {
      margin: { l: 54, r: names.length ? 58 : 14, t: 24, b: 40 }, // above, for marks of changes
      xaxis: { ...dates(element), title: { text: `window (${collection.clocks})` }, ...(few ? around(groups) : {}) },
      yaxis: valueAxis(collection),
      annotations: [...names.flat(), ...marks],
      shapes: [{ ...upright(middle(window), { color: colour("line"), width: 1.5 }), layer: "below" }],
    }),
  );
}

/** An axis of times, with as many names as stand upright side by side. */
const dates = ({ clientWidth }) => ({ type: "date", tickangle: 0, nticks: Math.max(2, Math.floor(clientWidth / 90)) });

/** Room around the windows: a point alone would be seen by the millisecond. */
function around(groups) {
  const room = least(groups.map(({ windows }) => pace(windows)));
  const points = groups.flatMap(({ windows }) => windows.map(middle));
  return { range: [least(points) - room, greatest(points) + room] };
}

function overTime(collection, { index, label, series, windows }, of, few, beside) {
  const { name, value, low, high } = quantity(series, of);
  const shift = beside * pace(windows);
  const x = windows.map((each) => middle(each) + shift);
  const found = runs(windows, value);
  const main = of === "mean" || of === 0.5;
  const said = windows.map(
    (each, row) =>
      plain(`${label}, ${name}: ${within(value[row], low[row], high[row])}${unitOf(collection)}`) +
      `<br>${each.label}, ${count(series.reports[row])} reports`,
  );
  const shape = {
    type: "scatter",
    mode: few ? "lines+markers" : "lines",
    name: plain(`${label}, ${name}`),
    x: line(found, (row) => x[row]),
    y: line(found, (row) => value[row]),
    text: line(found, (row) => said[row]),
    hovertemplate: "%{text}<extra></extra>",
    line: { color: groupColour(index), width: main ? 2 : 1.25, dash: groupDash(index) },
    marker: { size: main ? 7 : 5, color: groupColour(index) },
  };
  if (few) {
    const error = bars(
      line(found, (row) => value[row]),
      line(found, (row) => low[row]),
      line(found, (row) => high[row]),
    );
    return [{ ...shape, error_y: { ...error, color: groupColour(index, 0.7) } }];
  }
  return [
    {
      type: "scatter",
      mode: "lines",
      hoverinfo: "skip",
      name: plain(`${label}, ${name}, 95 % interval`),
      line: { width: 0 },
      fill: "toself",
      fillcolor: groupColour(index, 0.2),
      x: ribbon(
        found,
        (row) => x[row],
        (row) => x[row],
      ),
      y: ribbon(
        found,
        (row) => high[row],
        (row) => low[row],
      ),
    },
    shape,
  ];
}

/** The name of a line, at its end. */
function lastName(collection, { series, windows }, of) {
  const { name, value } = quantity(series, of);
  const row = value.findLastIndex((each) => !Number.isNaN(each));
  if (row < 0) return [];
  return [
    {
      x: middle(windows[row]),
      y: placeOn(collection, value[row]),
      text: name,
      showarrow: false,
      xanchor: "left",
      xshift: 9,
      font: { size: 11 },
    },
  ];
}

function drawPanes(element, { collection, groups }) {
  const of = groups.every(({ picture }) => picture.movement.shares.includes(0.5)) ? 0.5 : "mean";
  const most = Math.max(...groups.map(({ picture }) => picture.movement.panes.length));
  const beside = besides(groups, 0.05);
  const traces = groups.map(({ index, label, picture: { movement } }, place) => {
    const { name, value, low, high } = quantity(movement, of);
    return {
      type: "scatter",
      mode: "lines+markers",
      name: plain(label),
      x: value.map((_, row) => row + 1 + beside[place]),
      y: value,
      error_y: { ...bars(value, low, high), color: groupColour(index, 0.7) },
      text: movement.panes.map(({ timing }, row) =>
        plain(
          `${label}, ${timingName(timing)}: ${count(movement.reports[row])} reports, ` +
            `${name} ${within(value[row], low[row], high[row])}${unitOf(collection)}`,
        ),
      ),
      hovertemplate: "%{text}<extra></extra>",
      line: { color: groupColour(index), width: 1, dash: groupDash(index) },
      marker: {
        size: 9,
        color: groupColour(index),
        symbol: movement.panes.map(({ timing }) => SYMBOLS.get(timing) ?? "x"),
      },
    };
  });
  draw(
    element,
    `${of === "mean" ? "Mean" : "Median"} of ${collection.label} from pane to pane`,
    traces,
    layout(270, {
      xaxis: {
        range: [0.5, most + 0.5],
        title: { text: "pane" },
        ...(most <= 10 ? paneNames(groups) : { tickformat: "d" }),
      },
      yaxis: {
        ...valueAxis(collection),
        title: { text: plain(`${of === "mean" ? "mean" : "median"}${collection.unit ? ` (${collection.unit})` : ""}`) },
      },
    }),
  );
}

/** When each pane came, and of a single group how many reports it had counted. */
function paneNames(groups) {
  const [first, ...others] = groups
    .map(({ picture }) => picture.movement)
    .sort((one, other) => other.panes.length - one.panes.length);
  const alike = others.every(({ panes }) => panes.every(({ timing }, row) => timing === first.panes[row].timing));
  if (!alike) return { dtick: 1 };
  const reports = (row) => (others.length ? "" : `<br>${count(first.reports[row])} reports`);
  return {
    tickvals: first.panes.map((_, row) => row + 1),
    ticktext: first.panes.map(({ timing }, row) => plain(timingName(timing)) + reports(row)),
  };
}
