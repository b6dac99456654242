// A threshold: the share of values above it, of every chosen group, with its interval.
"use strict";

const STOPS = 240; // of the slider, from end to end of the domain
let measured; // the view whose shares are told
const OVER_DOMAIN = "#density .plot, #cdf .plot"; // the pictures that it is drawn in

/** A value of the domain to few digits: to a thousandth of the domain, or three digits on a logarithmic scale. */
function tidy({ low, high, scale, integer }, value) {
  const inside = Math.min(high, Math.max(low, value));
  if (integer) return Math.round(inside);
  if (scale === "log") return Math.min(high, Math.max(low, Number(inside.toPrecision(3))));
  const step = 10 ** Math.floor(Math.log10((high - low) / 500));
  return Math.min(high, Math.max(low, Number((Math.round(inside / step) * step).toPrecision(12))));
}

/** The chosen threshold; before one is chosen, about the upper quartile of the first group that is shown. */
function thresholdIn(collection) {
  const { low, high, scale } = collection;
  if (chosen.threshold !== null) return Math.min(high, Math.max(low, chosen.threshold));
  const [, quartile] = measured?.groups[0].picture.quantiles.find(([share]) => share === 0.75) ?? [];
  return tidy(collection, Number((quartile ?? placeBetween(low, high, 0.5, scale)).toPrecision(2)));
}

/** The mark of it, the first of a picture's shapes. */
const thresholdMark = (value) => upright(value, { color: colour("accent"), width: 2, dash: "dash" });

/** A grip over the mark of a picture, for mouse and finger; by the keyboard, the slider below does the same. */
function followThreshold(plot) {
  const grip = plot.appendChild(make("div", [], { className: "grip", ariaHidden: "true" }));
  const place = () => {
    const { xaxis, yaxis } = plot._fullLayout;
    const left = xaxis._offset + xaxis.d2p(plot.layout.shapes[0].x0);
    Object.assign(grip.style, { left: `${left}px`, top: `${yaxis._offset}px`, height: `${yaxis._length}px` });
    grip.hidden = left < xaxis._offset || left > xaxis._offset + xaxis._length;
  };
  place();
  plot.on("plotly_afterplot", place);
  grip.addEventListener("pointerdown", ({ pointerId }) => grip.setPointerCapture(pointerId));
  grip.addEventListener("pointermove", ({ pointerId, clientX }) => {
    if (!grip.hasPointerCapture(pointerId)) return;
    const { xaxis } = plot._fullLayout;
    const value = xaxis.p2d(clientX - plot.getBoundingClientRect().left - xaxis._offset);
    setThreshold(tidy(resolve().collection, value));
  });
}

const moveMark = (plot, value) => Plotly.relayout(plot, { "shapes[0].x0": value, "shapes[0].x1": value });

/** Without drawing everything anew: it moves while a person drags it. */
function setThreshold(value) {
  chosen = { ...chosen, threshold: value };
  history.replaceState(null, "", linkTo(chosen));
  placeThreshold();
}

/** Where it is chosen to be, in the words and in every picture. */
function placeThreshold() {
  if (!measured) return;
  const value = thresholdIn(measured.collection);
  showThreshold(measured);
  for (const plot of document.querySelectorAll(OVER_DOMAIN)) {
    const mark = plot.layout?.shapes?.[0];
    if (mark && mark.x0 !== value) moveMark(plot, value);
  }
}

function showThreshold(view) {
  measured = view;
  const { collection, groups } = view;
  const { low, high, scale, integer } = collection;
  const along = alongAxis(scale);
  const value = thresholdIn(collection);
  const stops = integer ? Math.min(STOPS, high - low) : STOPS;
  at("threshold").max = stops;
  at("threshold").value = Math.round((stops * (along(value) - along(low))) / (along(high) - along(low)));
  at("threshold").setAttribute("aria-valuetext", `${bound(value)}${unitOf(collection)}`);
  if (at("threshold-value").dataset.shown !== String(value)) {
    at("threshold-value").dataset.shown = at("threshold-value").value = value; // else left alone: it may be typed in
  }
  Object.assign(at("threshold-value"), { min: low, max: high, step: "any" });
  at("threshold-unit").replaceChildren(named(collection.unit));
  const unit = () => (collection.unit ? [" ", named(collection.unit)] : []);
  const known = groups.filter(({ picture }) => picture.probabilities !== null);
  at("above").replaceChildren(
    ...known.map((group) => {
      const { share, low, high } = shareAbove(group.picture, collection, value);
      const interval = low === undefined ? "" : ` (95 % interval ${percents(low, high)})`;
      return make("li", [
        ...(known.length > 1 ? groupName(group) : []),
        ...thinMark(group.picture),
        make("span", [make("b", percent(share)), ` of values are above ${bound(value)}`, ...unit(), interval]),
      ]);
    }),
  );
}

const percents = (low, high) => `${number(100 * low, 3)} to ${percent(high)}`;

function listenToThreshold() {
  at("threshold").addEventListener("input", ({ target }) => {
    const { collection } = resolve();
    const part = target.value / target.max;
    setThreshold(tidy(collection, placeBetween(collection.low, collection.high, part, collection.scale)));
  });
  at("threshold-value").addEventListener("change", ({ target }) => {
    const { low, high } = resolve().collection;
    const value = target.valueAsNumber;
    if (Number.isFinite(value)) setThreshold(Math.min(high, Math.max(low, value)));
    target.value = thresholdIn(resolve().collection);
  });
}
