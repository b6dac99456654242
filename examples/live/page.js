// A number from a slider, privatised here, sent to the collector, and the live page of all numbers beside it.
import { Device, OverBudgetError, Store, browserStorage, load } from "./hushgram.min.js";

const MOST_EPSILON = 2; // whatever the server asks for
const find = (selector) => document.querySelector(selector);
const hours = (value) => `${value.toFixed(2).replace(/\.?0+$/, "")} hours`;

const { collector, live } = await (await fetch("settings.json")).json();
const json = await (await fetch(`${collector}/v1/manifest/sleep`)).json();
const device = new Device(load(json, { mostEpsilon: MOST_EPSILON }), new Store(browserStorage()));
const scale = readScale(json);
find("iframe").src = live;
find("#law").textContent = scale.law;

const slider = find("#slider");
const button = find("button");
const show = () => (find("#value").value = hours(slider.valueAsNumber));
slider.addEventListener("input", show);
show();
slider.disabled = button.disabled = false;

find("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  button.disabled = true;
  try {
    find("#sent").textContent = await send(slider.valueAsNumber);
  } catch (error) {
    const enough = error instanceof OverBudgetError;
    find("#sent").textContent = enough ? "That was enough for today: more would tell too much." : `${error}`;
  }
  button.disabled = false;
});

let waiting = null;

/** Draws once, and posts what was drawn until the collector has answered: drawing again would tell more. */
async function send(value) {
  waiting ??= { value, message: await device.report(value) };
  const answer = await fetch(`${collector}/v1/reports`, {
    method: "POST",
    headers: { "Content-Type": "application/vnd.hushgram.report" },
    body: waiting.message,
  }).catch(() => null);
  if (!answer || answer.status === 429 || answer.status === 503) return "The collector does not answer. Press again to try again.";
  const { value: own, message } = waiting;
  waiting = null;
  if (answer.status !== 202) return "The collector does not want it.";
  const drawn = scale.valueOf(readCell(message, device.manifest.collection));
  mark("#true", own);
  mark("#random", drawn);
  return `${message.length} bytes were sent. They say ${hours(drawn)}.`;
}

/** What reports of a Square Wave mean: how far around a value most of them lie, and which value stands for a cell. */
function readScale({ domain, law, device }) {
  const [low, high] = [domain.low, domain.high].map(Number);
  const [P, Q, width, others] = ["P", "Q", "width", "others"].map((name) => Number(law.channels[0][name]));
  const step = (high - low) / Number(law.positions);
  const near = Math.round((100 * width * P) / (width * P + others * Q));
  const overhang = (width - 1) / 2; // cells below the least value, and above the greatest
  return {
    valueOf: (cell) => low + (cell - overhang + 0.5) * step,
    place: (value) => (value - low + overhang * step) / (high - low + 2 * overhang * step),
    law:
      `This page draws a number: with a chance of ${near} % one within ${hours((width * step) / 2)} of yours, else any other. ` +
      `No number is more than ${(P / Q).toFixed(1)} times as likely for one sleeper as for another (ε = ${device.epsilon}).`,
  };
}

/** The cell within a Report: behind its marker, fingerprint, collection and revision, zigzag, seven bits a byte. */
function readCell(message, collection) {
  let cell = 0;
  let weight = 1;
  for (let at = 2 + 8 + 1 + collection.length + 8; ; at++, weight *= 128) {
    cell += (message[at] & 127) * weight;
    if (message[at] < 128) return cell / 2;
  }
}

function mark(selector, value) {
  find(".scale").hidden = find(".legend").hidden = false;
  find(selector).style.left = `${100 * scale.place(value)}%`;
}
