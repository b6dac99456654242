// Pictures, drawn by plotly. `view` is what is chosen: { collection, window, groups: [{ index, label, picture, series }] }.
"use strict";

const SETTINGS = { displayModeBar: false, responsive: true, doubleClick: "reset" };
const COLOURS = 6;
const DASHES = ["solid", "dash", "dot", "dashdot"];
const SYMBOLS = { early: "circle-open", on_time: "circle", late: "diamond" };
const FEW = 30; // so many windows have points with bars; more have a line in a ribbon

/** A colour of page.css as the plotting library understands it. */
function colour(name, alpha = 1) {
  const probe = document.getElementById("probe") ?? document.body.appendChild(Object.assign(document.createElement("i"), { id: "probe", hidden: true }));
  probe.style.color = `var(--${name})`;
  const rgb = getComputedStyle(probe).color;
  return alpha === 1 ? rgb : rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

/** Colour and dashes of a group: by its place in the collection, so that they stay when the choice changes. */
const groupColour = (index, alpha) => colour(`group-${index % COLOURS}`, alpha);
const groupDash = (index) => DASHES[Math.floor(index / COLOURS) % DASHES.length];

const SMALL = { height: 180, margin: { l: 46, r: 10, t: 6, b: 26 } };

const unitOf = ({ unit }) => (unit ? ` ${unit}` : "");

function layout(height, more) {
  const axis = {
    gridcolor: colour("grid"), linecolor: colour("line"), zerolinecolor: colour("line"), tickcolor: colour("line"),
    automargin: true, ticks: "outside", ticklen: 4, title: { standoff: 8, font: { size: 12 } },
  };
  return {
    height, showlegend: false, hovermode: "closest", dragmode: "zoom", separators: ".,",
    margin: { l: 54, r: 14, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.documentElement).fontFamily, size: 12, color: colour("quiet") },
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink"), size: 12 }, align: "left" },
    ...more,
    xaxis: { ...axis, showgrid: false, ...more.xaxis, title: { ...axis.title, ...more.xaxis?.title } },
    yaxis: { ...axis, zeroline: false, ...more.yaxis, title: { ...axis.title, ...more.yaxis?.title } },
  };
}

/** An axis over the collection's values, in its own units. */
const valueAxis = ({ label, unit, scale }) => ({
  title: { text: plain(unit ? `${label} (${unit})` : label) },
  type: scale === "log" ? "log" : "linear", hoverformat: ",.5~g", exponentformat: "none", separatethousands: true,
});

/** The same, over the whole domain. */
function domainAxis(collection, titled = true) {
  const { low, high, integer, scale } = collection;
  const ends = integer ? [low - 0.5, high + 0.5] : [low, high];
  return { ...valueAxis(collection), ...(titled ? {} : { title: {} }), range: scale === "log" ? ends.map(Math.log10) : ends, zeroline: false };
}

/** Where a value stands, for what the plotting library places by logarithm on such an axis. */
const placeOn = ({ scale }, value) => (scale === "log" ? Math.log10(value) : value);

function draw(element, words, traces, more) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", words);
  return Plotly.react(element, traces, more, SETTINGS);
}

// Reports in each window ------------------------------------------------------------------------------------------------

const middle = ({ start, end }) => start / 2 + end / 2;

/** The usual time between windows, or a window's length where there is one only. */
function pace(windows) {
  const steps = windows.slice(1).map((window, index) => window.start - windows[index].start);
  return steps.length ? Math.min(...steps) : windows[0].end - windows[0].start;
}

function drawReports(element, { collection, window, groups: [first] }, choose) {
  const { series, windows, label } = first;
  const bars = windows.map((each, index) =>
    each.id === window.id ? colour("accent") : series.warnings[index].length ? colour("warn", 0.55) : colour("bar"));
  const said = windows.map((each, index) => {
    const notes = series.warnings[index].map((name) => `<br>${contents.notes[name].short}`).join("");
    return `${each.label}<br>${count(series.reports[index])} reports${notes}`;
  });
  draw(element, `Reports of ${label} in each window of ${collection.label}`, [{
    type: "bar", x: windows.map(middle), y: series.reports, width: 0.86 * pace(windows), marker: { color: bars },
    hovertext: said, hoverinfo: "text",
  }], layout(110, {
    margin: { l: 54, r: 14, t: 4, b: 36 },
    xaxis: { type: "date", ticks: "" },
    yaxis: { rangemode: "tozero", nticks: 3, tickformat: "~s" },
    dragmode: false,
  }));
  element.removeAllListeners?.("plotly_click");
  element.on("plotly_click", ({ points }) => choose(windows[points[0].pointIndex]));
}

// Distributions ---------------------------------------------------------------------------------------------------------

/** One plot for all groups, or one for each with its name above. */
function plotsIn(element, groups, apart) {
  const wanted = apart ? groups.length : 1;
  element.classList.toggle("apart", apart);
  while (element.children.length > wanted) {
    Plotly.purge(element.lastChild.querySelector(".plot"));
    element.lastChild.remove();
  }
  while (element.children.length < wanted) {
    const figure = element.appendChild(document.createElement("figure"));
    figure.append(document.createElement("figcaption"), Object.assign(document.createElement("div"), { className: "plot" }));
  }
  return [...element.children].map((figure, place) => {
    figure.firstChild.hidden = !apart;
    if (apart) figure.firstChild.replaceChildren(...groupName(groups[place]));
    return [figure.lastChild, apart ? [groups[place]] : groups];
  });
}

function drawDensity(element, { collection, groups }, apart) {
  const known = groups.filter(({ picture }) => picture.probabilities !== null);
  const heights = known.map(({ picture }) => density(picture, collection.scale));
  const highest = Math.max(...heights.map((each) => Math.max(...each)));
  const lowest = Math.min(0, ...heights.map((each) => Math.min(...each)));
  const length = roundLength(highest, collection);
  const per = collection.scale === "log" ? "per factor of 10"
    : collection.integer && length === 1 ? "at each whole number" : `per ${number(length, 1)}${unitOf(collection)}`;
  const alike = apart ? { range: [105 * length * lowest, 105 * length * highest] } : { rangemode: "tozero" };
  for (const [plot, mine] of plotsIn(element, known, apart)) {
    const traces = mine.map((group) => {
      const { edges, probabilities } = group.picture;
      const y = Array.from(heights[known.indexOf(group)], (height) => 100 * length * height);
      const said = Array.from(probabilities, (share, bucket) =>
        plain(`${group.label}: ${percent(share)} from ${number(edges[bucket])} to ${number(edges[bucket + 1])}${unitOf(collection)}`));
      return {
        type: "scatter", mode: "lines", name: plain(group.label), x: edges, y: [...y, y.at(-1)],
        text: [...said, said.at(-1)], hovertemplate: "%{text}<extra></extra>",
        line: { shape: "hv", width: 1.75, color: groupColour(group.index), dash: groupDash(group.index) },
        fill: "tozeroy", fillcolor: groupColour(group.index, mine.length > 2 ? 0.04 : 0.14),
      };
    });
    const only = mine.length === 1 ? mine[0].picture.quantiles.find(([share]) => share === 0.5) : undefined;
    const words = `Density of ${collection.label}: ${mine.map(({ label }) => label).join(", ")}`;
    draw(plot, words, traces, layout(330, {
      margin: { l: 54, r: 14, t: 22, b: 40 },
      hovermode: "x unified",
      xaxis: domainAxis(collection, !apart),
      yaxis: { ...alike, ticksuffix: " %", title: { text: apart ? "" : plain(`share of values ${per}`) } },
      shapes: only ? medianMark(only) : [],
      annotations: only && !apart ? [medianName(only, collection)] : [],
      ...(apart ? SMALL : {}),
    }));
  }
}

/** The median and its interval, as a line and a shade. */
const medianMark = ([, value, low, high]) => [
  { type: "rect", x0: low, x1: high, yref: "paper", y0: 0, y1: 1, fillcolor: colour("quiet", 0.13), line: { width: 0 }, layer: "below" },
  { type: "line", x0: value, x1: value, yref: "paper", y0: 0, y1: 1, line: { color: colour("quiet"), width: 1, dash: "dot" } },
];

const medianName = ([, value], collection) => ({
  x: placeOn(collection, value), y: 1, yref: "paper", yanchor: "bottom",
  text: `median ${number(value)}`, showarrow: false, font: { size: 11, color: colour("quiet") },
});

function drawCdf(element, { collection, groups }, apart) {
  const known = groups.filter(({ picture }) => picture.probabilities !== null);
  for (const [plot, mine] of plotsIn(element, known, apart)) {
    const bands = mine.filter(({ picture }) => picture.cdf_points !== null).map(({ index, label, picture }) => ({
      type: "scatter", mode: "lines", name: plain(`${label}, 95 % band`), hoverinfo: "skip",
      x: [...picture.cdf_points, ...picture.cdf_points.toReversed()],
      y: [...picture.cdf_high, ...picture.cdf_low.toReversed()].map((share) => 100 * share),
      line: { width: 0, shape: stepped(collection, picture.cdf_points) ? "hvh" : "linear" }, fill: "toself", fillcolor: groupColour(index, 0.2),
    }));
    const curves = mine.map(({ index, label, picture }) => {
      const shares = cumulative(picture.probabilities);
      const whole = (edge) => (collection.integer ? Math.floor(edge) : edge);
      return {
        type: "scatter", mode: "lines", name: plain(label), x: picture.edges, y: Array.from(shares, (share) => 100 * share),
        text: Array.from(shares, (share, edge) =>
          plain(`${label}: ${percent(share)} at or below ${number(whole(picture.edges[edge]))}${unitOf(collection)}`)),
        hovertemplate: "%{text}<extra></extra>",
        line: { width: 1.75, color: groupColour(index), dash: groupDash(index), shape: stepped(collection, picture.edges) ? "hvh" : "linear" },
      };
    });
    const words = `Distribution function of ${collection.label} with its 95 % band: ${mine.map(({ label }) => label).join(", ")}`;
    draw(plot, words, [...bands, ...curves], layout(300, {
      hovermode: "x unified",
      xaxis: domainAxis(collection, !apart),
      yaxis: { range: [0, 101], ticksuffix: " %", title: { text: apart ? "" : "share of values at or below" } },
      ...(apart ? SMALL : {}),
    }));
  }
}

/** Whole numbers with a bucket each: the curve rises at the numbers, halfway between the buckets' edges. */
const stepped = ({ integer }, edges) => integer && Math.abs(edges[1] - edges[0] - 1) < 1e-9 && edges.length <= 130;

// A mean alone ----------------------------------------------------------------------------------------------------------

function drawMean(element, { collection, groups }) {
  const places = groups.map((_, place) => -place);
  draw(element, `Mean of ${collection.label} with its 95 % interval`, groups.map(({ index, label, picture }, place) => ({
    type: "scatter", mode: "markers", name: plain(label), x: [picture.mean], y: [-place],
    error_x: bars([picture.mean], [picture.mean_low], [picture.mean_high]),
    marker: { size: 9, color: groupColour(index) },
    hovertext: plain(`${label}: ${plusMinus(picture.mean, picture.mean_low, picture.mean_high)}${unitOf(collection)}`), hoverinfo: "text",
  })), layout(80 + 34 * groups.length, {
    xaxis: { ...domainAxis(collection), showgrid: true },
    yaxis: { tickvals: places, ticktext: groups.map(({ label }) => plain(label)), range: [0.6 - groups.length, 0.6], showgrid: false, ticks: "" },
  }));
}

const bars = (values, lows, highs) => ({
  type: "data", symmetric: false, thickness: 1.25, width: 4,
  array: highs.map((high, index) => high - values[index]), arrayminus: lows.map((low, index) => values[index] - low),
});

// Over time, and from pane to pane --------------------------------------------------------------------------------------

/** A column of a series with its interval: the mean, or the quantile of a share. */
function quantity(series, of) {
  if (of === "mean") return { name: "mean", value: Array.from(series.mean), low: Array.from(series.mean_low), high: Array.from(series.mean_high) };
  const place = series.shares.indexOf(of);
  const column = (matrix) => series.reports.map((_, row) => (place < 0 ? NaN : matrix[row * series.shares.length + place]));
  return { name: quantileName(of), value: column(series.value), low: column(series.low), high: column(series.high) };
}

function drawTime(element, { collection, window, groups }, wanted) {
  const few = groups.every(({ windows }) => windows.length <= FEW);
  const traces = groups.flatMap((group, place) => wanted.flatMap((of) => overTime(collection, group, of, few, few ? place - (groups.length - 1) / 2 : 0)));
  const names = groups.length === 1 && wanted.length > 1 ? wanted.map((of) => lastName(collection, groups[0], of)) : [];
  const words = `${wanted.map((of) => (of === "mean" ? "mean" : quantileName(of))).join(", ")} of ${collection.label} over time, with 95 % intervals`;
  draw(element, words, traces, layout(320, {
    margin: { l: 54, r: names.length ? 58 : 14, t: 8, b: 40 },
    xaxis: { type: "date", title: { text: "window (UTC)" } },
    yaxis: valueAxis(collection),
    annotations: names.flat(),
    shapes: [{ type: "line", x0: middle(window), x1: middle(window), yref: "paper", y0: 0, y1: 1, layer: "below", line: { color: colour("line"), width: 1.5 } }],
  }));
}

function overTime(collection, { index, label, series, windows }, of, few, beside) {
  const { name, value, low, high } = quantity(series, of);
  const shift = 0.06 * beside * pace(windows);
  const x = windows.map((each) => middle(each) + shift);
  const found = runs(windows.map(({ start }) => start), value);
  const main = of === "mean" || of === 0.5;
  const said = windows.map((each, row) =>
    plain(`${label}, ${name}: ${number(value[row])} [${number(low[row])}, ${number(high[row])}]${unitOf(collection)}`) +
    `<br>${each.label}, ${count(series.reports[row])} reports`);
  const shape = {
    type: "scatter", mode: few ? "lines+markers" : "lines", name: plain(`${label}, ${name}`), x: line(found, (row) => x[row]), y: line(found, (row) => value[row]),
    text: line(found, (row) => said[row]), hovertemplate: "%{text}<extra></extra>",
    line: { color: groupColour(index), width: main ? 2 : 1.25, dash: groupDash(index) }, marker: { size: main ? 7 : 5, color: groupColour(index) },
  };
  if (few) {
    const error = bars(line(found, (row) => value[row]), line(found, (row) => low[row]), line(found, (row) => high[row]));
    return [{ ...shape, error_y: { ...error, color: groupColour(index, 0.7) } }];
  }
  return [{
    type: "scatter", mode: "lines", hoverinfo: "skip", name: plain(`${label}, ${name}, 95 % interval`), line: { width: 0 }, fill: "toself",
    fillcolor: groupColour(index, 0.2), x: ribbon(found, (row) => x[row], (row) => x[row]), y: ribbon(found, (row) => high[row], (row) => low[row]),
  }, shape];
}

/** The name of a line, at its end. */
function lastName(collection, { series, windows }, of) {
  const { name, value } = quantity(series, of);
  const row = value.findLastIndex((each) => !Number.isNaN(each));
  if (row < 0) return [];
  return [{ x: middle(windows[row]), y: placeOn(collection, value[row]), text: name, showarrow: false, xanchor: "left", xshift: 9, font: { size: 11 } }];
}

function drawPanes(element, { collection, groups }) {
  const of = groups.every(({ picture }) => picture.probabilities !== null) ? 0.5 : "mean";
  const most = Math.max(...groups.map(({ picture }) => picture.movement.panes.length));
  const traces = groups.map(({ index, label, picture: { movement } }, place) => {
    const { name, value, low, high } = quantity(movement, of);
    const beside = 0.05 * (place - (groups.length - 1) / 2);
    return {
      type: "scatter", mode: "lines+markers", name: plain(label), x: value.map((_, row) => row + 1 + beside), y: value,
      error_y: { ...bars(value, low, high), color: groupColour(index, 0.7) },
      text: movement.panes.map(({ timing }, row) => plain(
        `${label}, ${timingName(timing)}: ${count(movement.reports[row])} reports, ${name} ${number(value[row])} [${number(low[row])}, ${number(high[row])}]${unitOf(collection)}`)),
      hovertemplate: "%{text}<extra></extra>",
      line: { color: groupColour(index), width: 1, dash: groupDash(index) },
      marker: { size: 9, color: groupColour(index), symbol: movement.panes.map(({ timing }) => SYMBOLS[timing] ?? "x") },
    };
  });
  draw(element, `${of === "mean" ? "Mean" : "Median"} of ${collection.label} from pane to pane`, traces, layout(270, {
    xaxis: { range: [0.5, most + 0.5], title: { text: "pane" }, ...(most <= 10 ? paneNames(groups) : { tickformat: "d" }) },
    yaxis: { ...valueAxis(collection), title: { text: plain(`${of === "mean" ? "mean" : "median"}${collection.unit ? ` (${collection.unit})` : ""}`) } },
  }));
}

/** When each pane came, and of a single group how many reports it had counted. */
function paneNames(groups) {
  const [first, ...others] = groups.map(({ picture }) => picture.movement).sort((one, other) => other.panes.length - one.panes.length);
  const alike = others.every(({ panes }) => panes.every(({ timing }, row) => timing === first.panes[row].timing));
  if (!alike) return { dtick: 1 };
  const reports = (row) => (others.length ? "" : `<br>${count(first.reports[row])} reports`);
  return { tickvals: first.panes.map((_, row) => row + 1), ticktext: first.panes.map(({ timing }, row) => plain(timingName(timing)) + reports(row)) };
}
