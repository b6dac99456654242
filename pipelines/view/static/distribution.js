// Pictures of one window: density, distribution function, a mean alone.
// They take what `viewOf` made of the choice.
"use strict";

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
    figure.append(
      document.createElement("figcaption"),
      Object.assign(document.createElement("div"), { className: "plot" }),
    );
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
  const highest = greatest(heights.map(greatest));
  const lowest = Math.min(0, least(heights.map(least)));
  document.getElementById("below-zero").hidden = lowest > -1e-9 * highest;
  const length = roundLength(highest, collection);
  const per =
    collection.scale === "log"
      ? "per factor of 10"
      : collection.integer && length === 1
        ? "at each whole number"
        : `per ${number(length, 1)}${unitOf(collection)}`;
  document.getElementById("density-heading").textContent = `Share of values ${per}`;
  const alike = apart ? { range: [105 * length * lowest, 105 * length * highest] } : { rangemode: "tozero" };
  for (const [plot, mine] of plotsIn(element, known, apart)) {
    const traces = mine.map((group) => {
      const { edges, probabilities } = group.picture;
      const y = Array.from(heights[known.indexOf(group)], (height) => 100 * length * height);
      const unit = unitOf(collection);
      const said = Array.from(probabilities, (share, bucket) =>
        plain(`${group.label}: ${percent(share)} from ${number(edges[bucket])} to ${number(edges[bucket + 1])}${unit}`),
      );
      return {
        type: "scatter",
        mode: "lines",
        name: plain(group.label),
        x: edges,
        y: [...y, y.at(-1)],
        text: [...said, said.at(-1)],
        hovertemplate: "%{text}<extra></extra>",
        line: { shape: "hv", width: 1.75, color: groupColour(group.index), dash: groupDash(group.index) },
        fill: "tozeroy",
        fillcolor: groupColour(group.index, mine.length > 2 ? 0.04 : 0.14),
      };
    });
    const only = mine.length === 1 ? mine[0].picture.quantiles.find(([share]) => share === 0.5) : undefined;
    const words = `Density of ${collection.label}: ${mine.map(({ label }) => label).join(", ")}`;
    draw(
      plot,
      words,
      traces,
      layout(310, {
        margin: { l: 46, r: 24, t: 22, b: 40 }, // to the right, for the name of the domain's end
        hovermode: "x unified",
        xaxis: domainAxis(collection, known, apart),
        yaxis: { ...alike, ticksuffix: " %" },
        shapes: only ? medianMark(only) : [],
        annotations: only && !apart ? [medianName(only, collection)] : [],
        ...(apart ? SMALL : {}),
      }),
    );
  }
}

/** The median and its interval, as a line and a shade. */
const medianMark = ([, value, low, high]) => [
  {
    type: "rect",
    x0: low,
    x1: high,
    yref: "paper",
    y0: 0,
    y1: 1,
    fillcolor: colour("quiet", 0.13),
    line: { width: 0 },
    layer: "below",
  },
  {
    type: "line",
    x0: value,
    x1: value,
    yref: "paper",
    y0: 0,
    y1: 1,
    line: { color: colour("quiet"), width: 1, dash: "dot" },
  },
];

const medianName = ([, value], collection) => ({
  x: placeOn(collection, value),
  y: 1,
  yref: "paper",
  yanchor: "bottom",
  text: `median ${number(value)}`,
  showarrow: false,
  font: { size: 11, color: colour("quiet") },
});

function drawCdf(element, { collection, groups }, apart) {
  const known = groups.filter(({ picture }) => picture.probabilities !== null);
  for (const [plot, mine] of plotsIn(element, known, apart)) {
    const bands = mine
      .filter(({ picture }) => picture.cdf_points !== null)
      .map(({ index, label, picture }) => ({
        type: "scatter",
        mode: "lines",
        name: plain(`${label}, 95 % band`),
        hoverinfo: "skip",
        x: [...picture.cdf_points, ...picture.cdf_points.toReversed()],
        y: [...picture.cdf_high, ...picture.cdf_low.toReversed()].map((share) => 100 * share),
        line: { width: 0, shape: stepped(collection, picture.cdf_points) ? "hvh" : "linear" },
        fill: "toself",
        fillcolor: groupColour(index, Math.max(0.05, Math.min(0.2, 0.4 / mine.length))),
      }));
    const curves = mine.map(({ index, label, picture }) => {
      const shares = cumulative(picture.probabilities);
      const whole = (edge) => (collection.integer ? Math.floor(edge) : edge);
      return {
        type: "scatter",
        mode: "lines",
        name: plain(label),
        x: picture.edges,
        y: Array.from(shares, (share) => 100 * share),
        text: Array.from(shares, (share, edge) =>
          plain(`${label}: ${percent(share)} at or below ${number(whole(picture.edges[edge]))}${unitOf(collection)}`),
        ),
        hovertemplate: "%{text}<extra></extra>",
        line: {
          width: 1.75,
          color: groupColour(index),
          dash: groupDash(index),
          shape: stepped(collection, picture.edges) ? "hvh" : "linear",
        },
      };
    });
    const who = mine.map(({ label }) => label).join(", ");
    const words = `Distribution function of ${collection.label} with its 95 % band: ${who}`;
    draw(
      plot,
      words,
      [...bands, ...curves],
      layout(310, {
        margin: { l: 46, r: 24, t: 22, b: 40 }, // to the right, for the name of the domain's end
        hovermode: "x unified",
        xaxis: domainAxis(collection, known, apart),
        yaxis: { range: [0, 101], ticksuffix: " %" },
        ...(apart ? SMALL : {}),
      }),
    );
  }
}

/** Whole numbers with a bucket each: the curve rises at the numbers, halfway between the buckets' edges. */
const stepped = ({ integer }, edges) => integer && Math.abs(edges[1] - edges[0] - 1) < 1e-9 && edges.length <= 130;

function drawMean(element, { collection, groups }) {
  const places = groups.map((_, place) => -place);
  draw(
    element,
    `Mean of ${collection.label} with its 95 % interval`,
    groups.map(({ index, label, picture }, place) => ({
      type: "scatter",
      mode: "markers",
      name: plain(label),
      x: [picture.mean],
      y: [-place],
      error_x: bars([picture.mean], [picture.mean_low], [picture.mean_high]),
      marker: { size: 9, color: groupColour(index) },
      hovertext: plain(
        `${label}: ${plusMinus(picture.mean, picture.mean_low, picture.mean_high)}${unitOf(collection)}`,
      ),
      hoverinfo: "text",
    })),
    layout(80 + 34 * groups.length, {
      xaxis: { ...domainAxis(collection, groups), showgrid: true },
      yaxis: {
        tickvals: places,
        ticktext: groups.map(({ label }) => plain(label)),
        range: [0.6 - groups.length, 0.6],
        showgrid: false,
        ticks: "",
      },
    }),
  );
}
