// The density, no finer than the reports support: the curve where it keeps within a narrow band, elsewhere the averages
// of bins, and wide bins with 95 % whiskers.
"use strict";

const FINEST = 64; // bins of a domain at most, as `Estimate.density_band` has them

/**
 * A density to draw, in shares per unit of the axis: steps { from, to, height }, and its bins as { from, to, height,
 * low, high, fine }. Snapshots of earlier versions have no bins, and every bucket is a step.
 */
function readable(picture, scale) {
  const { edges, probabilities, density_edges, density_low, density_high } = picture;
  const heights = density(picture, scale);
  const buckets = Array.from(probabilities, (_, index) => ({
    from: edges[index],
    to: edges[index + 1],
    height: heights[index],
  }));
  if (!density_edges) return { steps: buckets, bins: [] };
  const along = alongAxis(scale);
  const curve = curveOf(picture, scale);
  const finest = (along(edges.at(-1)) - along(edges[0])) / Math.min(FINEST, probabilities.length);
  const bins = Array.from(density_low, (low, index) => {
    const [from, to] = [density_edges[index], density_edges[index + 1]];
    const width = along(to) - along(from);
    const per = (to - from) / width; // bounds are per unit of the values
    const height = (curve(to) - curve(from)) / width;
    return { from, to, height, low: low * per, high: density_high[index] * per, fine: width < 1.5 * finest };
  });
  const middle = ({ from, to }) => (from + to) / 2;
  const inside = (bin) => buckets.filter((bucket) => bin.from <= middle(bucket) && middle(bucket) < bin.to);
  const keeps = (bin) => bin.fine && inside(bin).every(({ height }) => bin.low <= height && height <= bin.high);
  return { steps: bins.flatMap((bin) => (keeps(bin) ? inside(bin) : [bin])), bins };
}

/** Over which length the shares are, in words and in units of the axis. */
function densityLength(shapes, collection) {
  const highest = greatest(shapes.flatMap(({ steps, bins }) => [...steps, ...bins].map(({ height }) => height)));
  const length = roundLength(highest, collection);
  if (collection.scale === "log") return [length, `within a factor of ${Number((10 ** length).toPrecision(6))}`];
  if (collection.integer && length === 1) return [length, "at each whole number"];
  return [length, `per ${number(length, 1)}${unitOf(collection)}`];
}

/** The traces of one group: the band of its fine bins, its steps, the whiskers of its wide bins. */
function densityTraces(group, { steps, bins }, length, collection, beside, faint) {
  const height = (each) => 100 * length * each;
  const unit = unitOf(collection);
  const along = alongAxis(collection.scale);
  const share = (each, of = each.height) => percent(of * (along(each.to) - along(each.from)));
  const span = ({ from, to }) => `from ${number(from)} to ${number(to)}${unit}`;
  const bounds = (bin) => (bin?.high === undefined ? "" : `, 95 % ${share(bin, bin.low)} to ${share(bin, bin.high)}`);
  const ink = (alpha) => inkOf(group, alpha);
  const [fine, wide] = [bins.filter((bin) => bin.fine), bins.filter((bin) => !bin.fine)];
  const said = steps.map((step) => plain(`${group.label}: ${share(step)} ${span(step)}${bounds(step)}`));
  const name = plain(group.label);
  const band = {
    type: "scatter",
    mode: "lines",
    name: plain(`${group.label}, 95 % band`),
    hoverinfo: "skip",
    line: { width: 0 },
    fill: "toself",
    fillcolor: ink(0.22),
    ...ribbonOf(fine, height),
  };
  const line = {
    type: "scatter",
    mode: "lines",
    name,
    x: [...steps.map(({ from }) => from), steps.at(-1).to],
    y: [...steps, steps.at(-1)].map((step) => height(step.height)),
    text: [...said, said.at(-1)],
    hovertemplate: "%{text}<extra></extra>",
    line: { shape: "hv", width: isThin(group.picture) ? 1 : 1.75, color: ink(), dash: groupDash(group.index) },
    fill: "tozeroy",
    fillcolor: ink(faint ? 0.04 : 0.12),
  };
  const whiskers = {
    type: "scatter",
    mode: "markers",
    name: plain(`${group.label}, 95 % intervals`),
    hoverinfo: "skip",
    x: wide.map(({ from, to }) => placeBetween(from, to, 0.5 + beside, collection.scale)),
    y: wide.map((bin) => height(bin.height)),
    marker: { size: 5, color: ink() },
    error_y: {
      ...bars(...["height", "low", "high"].map((name) => wide.map((bin) => height(bin[name])))),
      color: ink(0.8),
    },
  };
  return [...(fine.length ? [band] : []), line, ...(wide.length ? [whiskers] : [])];
}

/** So far along from one value to another on the axis. */
function placeBetween(from, to, part, scale) {
  return scale === "log" ? from * (to / from) ** part : from + (to - from) * part;
}

/** The area between the bounds of bins, which may stand apart. */
function ribbonOf(bins, height) {
  const runs = [];
  for (const bin of bins) {
    if (runs.at(-1)?.at(-1).to === bin.from) runs.at(-1).push(bin);
    else runs.push([bin]);
  }
  const corners = (run, of) => run.flatMap((bin) => [of(bin), of(bin)]);
  const ends = (run) => run.flatMap(({ from, to }) => [from, to]);
  return {
    x: runs.flatMap((run) => [...ends(run), ...ends(run).toReversed(), null]),
    y: runs.flatMap((run) => [
      ...corners(run, ({ high }) => height(high)),
      ...corners(run, ({ low }) => height(low)).toReversed(),
      null,
    ]),
  };
}

function drawDensity(element, { collection, groups }, apart) {
  const known = groups.filter(({ picture }) => picture.probabilities !== null);
  const shapes = new Map(known.map((group) => [group, readable(group.picture, collection.scale)]));
  const parts = [...shapes.values()].flatMap(({ steps, bins }) => [...steps, ...bins]);
  const highest = greatest(parts.map(({ height, high }) => high ?? height));
  const lowest = Math.min(0, least(parts.map(({ height }) => height)));
  at("below-zero").hidden = lowest > -1e-9 * highest;
  const [length, words] = densityLength([...shapes.values()], collection);
  at("density-heading").textContent = `Share of values ${words}`;
  at("density-about").textContent = densityAbout(known, shapes);
  const alike = apart ? { range: [105 * length * lowest, 105 * length * highest] } : { rangemode: "tozero" };
  for (const [plot, mine] of plotsIn(element, known, apart)) {
    const beside = besides(mine, 0.12);
    const traces = mine.flatMap((group, place) =>
      densityTraces(group, shapes.get(group), length, collection, beside[place], mine.length > 2),
    );
    const only = mine.length === 1 ? mine[0].picture.quantiles.find(([share]) => share === 0.5) : undefined;
    drawOverDomain(plot, `Density of ${collection.label}: ${mine.map(({ label }) => label).join(", ")}`, traces, {
      collection,
      known,
      apart,
      yaxis: { ...alike, ticksuffix: " %" },
      shapes: only ? medianMark(only) : [],
      annotations: only && !apart ? [medianName(only, collection)] : [],
    });
  }
}

/** What is drawn, in a sentence: it depends on what the files have, and on how sure it is. */
function densityAbout(known, shapes) {
  const bins = known.flatMap((group) => shapes.get(group).bins);
  if (known.some(({ picture }) => !picture.density_edges))
    return "The files hold no bounds of the density: small peaks and dips may be noise.";
  const wide = bins.some(({ fine }) => !fine) ? "Flat steps with bars are as fine as the reports can tell there. " : "";
  return `${wide}Bands and bars hold the density everywhere at once, with 95 % confidence.`;
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
  upright(value, { color: colour("quiet"), width: 1, dash: "dot" }),
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
