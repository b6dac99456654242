// Pictures of one window: where they stand, the distribution function, a mean alone.
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
    if (apart) figure.firstChild.replaceChildren(...groupName(groups[place]), ...thinMark(groups[place].picture));
    return [figure.lastChild, apart ? [groups[place]] : groups];
  });
}

/**
 * A picture over the domain, or the part of it that was zoomed into, with the threshold in it, which can be dragged.
 * The choice keeps the part, so that all such pictures have the same and a link restores it.
 */
function drawOverDomain(plot, words, traces, { collection, known, apart, shapes = [], ...more }) {
  const axis = domainAxis(collection, known, apart);
  const first = plot.layout === undefined;
  draw(
    plot,
    words,
    traces,
    layout(310, {
      margin: { l: 46, r: 24, t: 22, b: 40 }, // to the right, for the name of the domain's end
      hovermode: "x unified",
      uirevision: `${words} ${chosen.zoom}`,
      shapes: [thresholdMark(thresholdIn(collection)), ...shapes],
      ...more,
      xaxis: { ...axis, range: chosen.zoom?.map((value) => placeOn(collection, value)) ?? axis.range },
      yaxis: { fixedrange: true, ...more.yaxis },
      ...(apart ? SMALL : {}),
    }),
    { ...SETTINGS, doubleClick: false },
  );
  if (!first) return;
  plot.on("plotly_doubleclick", () => choose({ zoom: null }));
  plot.on("plotly_relayout", (change) => {
    if (change["xaxis.range[0]"] !== undefined) zoomTo(change["xaxis.range[0]"], change["xaxis.range[1]"]);
  });
  followThreshold(plot);
}

/** Places on the axis, which are logarithms on a logarithmic one. */
function zoomTo(from, to) {
  const value = resolve().collection.scale === "log" ? (place) => 10 ** place : Number;
  choose({ zoom: [value(from), value(to)] });
}

/** The band of a distribution function, and the curve, as traces in a colour. */
function cdfTraces({ label, picture, index }, collection, ink, alpha) {
  const shares = cumulative(picture.probabilities);
  const whole = (edge) => (collection.integer ? Math.floor(edge) : edge);
  const shape = (places) => (stepped(collection, places) ? "hvh" : "linear");
  const band = picture.cdf_points && {
    type: "scatter",
    mode: "lines",
    name: plain(`${label}, 95 % band`),
    hoverinfo: "skip",
    x: [...picture.cdf_points, ...picture.cdf_points.toReversed()],
    y: [...picture.cdf_high, ...picture.cdf_low.toReversed()].map((share) => 100 * share),
    line: { width: 0, shape: shape(picture.cdf_points) },
    fill: "toself",
    fillcolor: ink(alpha),
  };
  const curve = {
    type: "scatter",
    mode: "lines",
    name: plain(label),
    x: picture.edges,
    y: Array.from(shares, (share) => 100 * share),
    text: Array.from(shares, (share, edge) =>
      plain(`${label}: ${percent(share)} at or below ${number(whole(picture.edges[edge]))}${unitOf(collection)}`),
    ),
    hovertemplate: "%{text}<extra></extra>",
    line: { width: isThin(picture) ? 1 : 1.75, color: ink(), dash: groupDash(index), shape: shape(picture.edges) },
  };
  return { band, curve };
}

function drawCdf(element, { collection, groups }, apart) {
  const known = groups.filter(({ picture }) => picture.probabilities !== null);
  for (const [plot, mine] of plotsIn(element, known, apart)) {
    const alpha = Math.max(0.05, Math.min(0.2, 0.4 / mine.length));
    const traces = mine.map((group) => cdfTraces(group, collection, (each) => inkOf(group, each), alpha));
    const who = mine.map(({ label }) => label).join(", ");
    drawOverDomain(
      plot,
      `Distribution function of ${collection.label} with its 95 % band: ${who}`,
      [...traces.flatMap(({ band }) => band ?? []), ...traces.map(({ curve }) => curve)],
      { collection, known, apart, yaxis: { range: [0, 101], ticksuffix: " %" } },
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
    groups.map((group, place) => ({
      type: "scatter",
      mode: "markers",
      name: plain(group.label),
      x: [group.picture.mean],
      y: [-place],
      error_x: bars([group.picture.mean], [group.picture.mean_low], [group.picture.mean_high]),
      marker: { size: 9, color: inkOf(group) },
      hovertext: plain(`${group.label}: ${meanOf(group.picture)}${unitOf(collection)}`),
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

const meanOf = ({ mean, mean_low, mean_high }) => plusMinus(mean, mean_low, mean_high);
