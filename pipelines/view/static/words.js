// Numbers and sentences, as `hushgram show` writes them.
"use strict";

/** Some significant digits, no exponent where it is not needed: the same text as `hushgram.pipelines.formatting.number`. */
function number(value, digits = 4) {
  const size = Math.abs(value);
  if (needsExponent(size)) return general(value, digits);
  const places = digits - 1 - (size === 0 ? 0 : exponent(size));
  return fixed(value, Math.max(0, places));
}

/** Too small or too large to be written out. */
const needsExponent = (size) => size !== 0 && !(size >= 1e-4 && size < 1e9);

/** The power of ten of a number's first digit. A logarithm may be off by one just below a power. */
function exponent(size) {
  return Number(size.toExponential().split("e")[1]);
}

/** So many decimals, and commas between thousands. */
function fixed(value, places) {
  const size = Math.abs(value);
  const [whole, decimals] = halfToEven(size.toFixed(places), size.toFixed(100), places).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return (value < 0 || Object.is(value, -0) ? "-" : "") + grouped + (decimals === undefined ? "" : `.${decimals}`);
}

/** With an exponent of at least two digits, and without zeros that say nothing. */
function general(value, digits) {
  const size = Math.abs(value);
  const [rounded, exact] = [digits - 1, 100].map((places) => size.toExponential(places).split("e"));
  const mantissa = halfToEven(rounded[0], exact[0], digits - 1);
  const power = mantissa === rounded[0] ? rounded[1] : exact[1];
  const sign = value < 0 ? "-" : "";
  if (Number(power) >= -4 && Number(power) < digits) return sign + String(Number(`${mantissa}e${power}`));
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return `${sign}${short}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

/** What the browser rounded, unless it was exactly half: the browser goes up then, Python to the even digit. */
function halfToEven(rounded, exact, places) {
  const cut = exact.slice(0, exact.indexOf(".") + 1 + places);
  const below = cut.replace(/\.$/, "");
  return /^50*$/.test(exact.slice(cut.length)) && "02468".includes(below.at(-1)) ? below : rounded;
}

/** A bound of a domain, which somebody wrote down: as it is, with commas where it is a whole number. */
const bound = (value) => (Number.isInteger(value) && Math.abs(value) < 1e15 ? count(value) : String(value));

const count = (value) => fixed(value, 0);
const percent = (share, digits = 3) => `${number(100 * share, digits)} %`;

/** A share as the name of a quantile: 0.05 is "5 %", 0.999 is "99.9 %". */
const quantileName = (share) => (share === 0.5 ? "median" : `${Number((100 * share).toPrecision(12))} %`);

/** "14.35 ± 0.14", from a mean and its interval, as in the terminal. */
const plusMinus = (mean, low, high) => `${number(mean)} ± ${number((high - low) / 2, 2)}`;

/** "14.82 [14.53, 15.14]": a value and its interval. */
const within = (value, low, high) => `${number(value)} [${number(low)}, ${number(high)}]`;

const timingName = (timing) => timing.replaceAll("_", " ");

/** A name that leaves room for others. */
const brief = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);

/** A text for the plotting library, which would take tags, entities and dollars in it for its own. */
const ENTITIES = new Map([
  ["&", "&amp;"],
  ["<", "&lt;"],
  [">", "&gt;"],
  ["$", "&#36;"],
]);
const plain = (text) => text.replace(/[&<>$]/g, (letter) => ENTITIES.get(letter));
