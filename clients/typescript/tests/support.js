// What the tests share: manifests, devices whose clock is set, a server that answers as it is told.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { Device, Store, load } from "../dist/node.js";
import { memoryStorage } from "../dist/storage.js";

export const HOUR = 3_600_000;
export const WEEK = 168 * HOUR;
export const MONDAY = Math.floor(1_767_571_200_000 / WEEK) * WEEK;

/** A collection of ε = 0.75 with the given budget for each week, in ε. */
export function manifest({ budget = null, slots = 1, total = null, collection = "c", ...changes } = {}) {
  const source = structuredClone(JSON.parse(readFileSync(process.env.MANIFEST, "utf8")));
  const account = (amount) => amount && { amount: amount * 1e9, every_ms: WEEK };
  Object.assign(source.device, { budget: account(budget), slots, total: account(total) });
  return load({ ...source, collection, ...changes });
}

/** A device whose clock says `clock.now`, in memory unless a storage is given. */
export function device(loaded, clock = { now: MONDAY }, storage = memoryStorage()) {
  return new Device(loaded, new Store(storage, () => clock.now));
}

/** Counts the draws of random numbers while `act` runs. */
export async function countDraws(act) {
  const own = crypto.getRandomValues;
  let draws = 0;
  crypto.getRandomValues = (array) => (draws++, own.call(crypto, array));
  try {
    await act();
  } finally {
    crypto.getRandomValues = own;
  }
  return draws;
}

/** A server that gives these answers, then 202, and keeps what it was sent. */
export async function collector(t, answers = []) {
  const received = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    received.push({ method, url, headers, body: Buffer.concat(chunks).toString("hex") });
    response.writeHead(...(answers.shift() ?? [202])).end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  return { received, url: `http://127.0.0.1:${server.address().port}/v1/reports` };
}
