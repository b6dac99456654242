// How pictures look: colours, axes and what all of them share. Plotly draws them.
"use strict";

const SETTINGS = { displayModeBar: false, doubleClick: "reset" };
const COLOURS = 6;
const DASHES = ["solid", "dash", "dot", "dashdot"];

/** A colour of page.css as the plotting library understands it. */
function colour(name, alpha = 1) {
  const probe =
    document.getElementById("probe") ??
    document.body.appendChild(Object.assign(document.createElement("i"), { id: "probe", hidden: true }));
  probe.style.color = `var(--${name})`;
  const rgb = getComputedStyle(probe).color;
  return alpha === 1 ? rgb : rgb.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

/** Colour and dashes of a group: by its place in the collection, so that they stay when the choice changes. */
const groupColour = (index, alpha) => colour(`group-${index % COLOURS}`, alpha);
const groupDash = (index) => DASHES[Math.floor(index / COLOURS) % DASHES.length];

/** The colour of what is drawn of a group in a window: grey where there is too little to trust it. */
const inkOf = ({ index, picture }, alpha) => (isThin(picture) ? colour("quiet", alpha) : groupColour(index, alpha));
const isThin = ({ status }) => status !== "ok";

const SMALL = { height: 190, margin: { l: 46, r: 10, t: 6, b: 36 } };

const unitOf = ({ unit }) => (unit ? ` ${unit}` : "");

function layout(height, more) {
  const axis = {
    gridcolor: colour("grid"),
    linecolor: colour("line"),
    zerolinecolor: colour("line"),
    tickcolor: colour("line"),
    automargin: true,
    ticks: "outside",
    ticklen: 4,
    title: { standoff: 8, font: { size: 12 } },
  };
  return {
    height,
    showlegend: false,
    hovermode: "closest",
    dragmode: "zoom",
    separators: ".,",
    margin: { l: 54, r: 14, t: 8, b: 40 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.documentElement).fontFamily, size: 12, color: colour("quiet") },
    hoverlabel: {
      bgcolor: colour("card"),
      bordercolor: colour("line"),
      font: { color: colour("ink"), size: 12 },
      align: "left",
    },
    ...more,
    xaxis: { ...axis, showgrid: false, ...more.xaxis, title: { ...axis.title, ...more.xaxis?.title } },
    yaxis: { ...axis, zeroline: false, ...more.yaxis, title: { ...axis.title, ...more.yaxis?.title } },
  };
}

/** An axis over the collection's values, in its own units. */
const valueAxis = ({ label, unit, scale, low, high }) => ({
  title: { text: plain(unit ? `${label} (${unit})` : label) },
  type: scale === "log" ? "log" : "linear",
  hoverformat: ",.5~g",
  minorloglabels: "complete", // between powers of ten: 20 and 50, not 2 and 5
  exponentformat: needsExponent(Math.max(Math.abs(low), Math.abs(high))) ? "e" : "none",
  separatethousands: true,
});

/** Groups stand a little beside one another, however many there are, and all of them within their place. */
const besides = (groups, step) =>
  groups.map((_, place) => (place - (groups.length - 1) / 2) * Math.min(step, 0.7 / groups.length));

/** The same, over the whole domain of some groups' pictures; in a small plot with the unit alone. */
function domainAxis(collection, groups, small = false) {
  const beside = collection.integer ? 0.5 : 0;
  const low = least(groups.map(({ picture }) => picture.low)) - beside;
  const high = greatest(groups.map(({ picture }) => picture.high)) + beside;
  const range = [placeOn(collection, low), placeOn(collection, high)];
  const axis = { ...valueAxis(collection), range, zeroline: false };
  return small ? { ...axis, title: { text: plain(collection.unit), standoff: 4 } } : axis;
}

/** Where a value stands, for what the plotting library places by logarithm on such an axis. */
const placeOn = ({ scale }, value) => (scale === "log" ? Math.log10(value) : value);

/** A picture is as wide as its place, also when that changes: the library looks at the browser's window only. */
const places = new ResizeObserver((changed) => {
  for (const { target } of changed) {
    const width = target.clientWidth;
    if (target.isConnected && width > 0 && target.layout?.width !== width) Plotly.relayout(target, { width });
  }
});

/** A part that was zoomed into stays while the words are the same, whatever data comes. */
function draw(element, words, traces, more, settings = SETTINGS) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", words);
  places.observe(element);
  return Plotly.react(element, traces, { uirevision: words, ...more, width: element.clientWidth }, settings);
}

/** A line over the whole height of a picture, as one of its shapes. */
const upright = (x, line) => ({ type: "line", x0: x, x1: x, yref: "paper", y0: 0, y1: 1, line });

/** Intervals, as bars around points. */
const bars = (values, lows, highs) => ({
  type: "data",
  symmetric: false,
  thickness: 1.25,
  width: 4,
  array: highs.map((high, index) => high - values[index]),
  arrayminus: lows.map((low, index) => values[index] - low),
});
