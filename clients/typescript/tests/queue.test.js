// Messages wait in the queue, and are sent as often as it takes, always the same bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OverBudgetError } from "../dist/node.js";
import { memoryStorage } from "../dist/storage.js";
import { parseRetryAfter } from "../dist/upload.js";
import { collector, device, HOUR, manifest, MONDAY } from "./support.js";

test("reports wait over a restart and are sent once", async (t) => {
  const { url, received } = await collector(t);
  const storage = memoryStorage();
  for (const value of [0.1, 0.2, 0.3]) await device(manifest(), { now: MONDAY + 5000 }, storage).submit(value);
  const { store } = device(manifest(), { now: MONDAY + 5000 }, storage);
  assert.equal(await store.waiting(), 3);
  assert.equal(await store.send(url), 3);
  assert.equal(await store.send(url), 0);
  assert.deepEqual(new Set(received.map(({ method, url }) => method + url)), new Set(["POST/v1/reports"]));
  assert.equal(received[0].headers["content-type"], "application/vnd.hushgram.report");
  assert.equal(received[0].headers.referer, undefined);
  assert.equal(new Set(received.map(({ body }) => body.slice(-32))).size, 3);
});

for (const status of [429, 503])
  test(`${status}: it is asked again after Retry-After, with the same bytes`, async (t) => {
    const { url, received } = await collector(t, [[status, { "Retry-After": "120" }]]);
    const clock = { now: MONDAY };
    const storage = memoryStorage();
    await device(manifest(), clock, storage).submit(0.5);
    assert.equal(await device(manifest(), clock, storage).store.send(url), 0);
    clock.now += 119_999;
    assert.equal(await device(manifest(), clock, storage).store.send(url), 0);
    assert.equal(received.length, 1);
    clock.now += 1;
    assert.equal(await device(manifest(), clock, storage).store.send(url), 1);
    assert.equal(received[0].body, received[1].body);
  });

test("a server that cannot be reached is asked less and less", async () => {
  const clock = { now: MONDAY };
  let kept;
  const storage = { update: async (change) => void (kept = change(kept)) };
  const one = device(manifest({ max_age_ms: 365 * 24 * HOUR }), clock, storage);
  await one.submit(0.5);
  for (let attempt = 0; attempt < 15; attempt++) {
    assert.equal(await one.store.send("http://127.0.0.1:1/v1/reports"), 0);
    const until = JSON.parse(kept.slice(kept.indexOf("[")))[3];
    const longest = 1000 * 2 ** Math.min(attempt, 12);
    assert(until - clock.now >= longest / 2 && until - clock.now <= 1.5 * longest);
    clock.now = Math.ceil(until);
  }
});

for (const [status, waiting] of [[400, 0], [413, 0], [415, 0], [422, 0], [404, 1], [500, 1], [301, 1], [307, 1]])
  test(`${status}: ${waiting ? "kept" : "dropped"}, and redirects are not followed`, async (t) => {
    const elsewhere = await collector(t);
    const { url, received } = await collector(t, [[status, { Location: elsewhere.url }]]);
    const one = device(manifest());
    await one.submit(0.5);
    assert.equal(await one.store.send(url), 0);
    assert.equal(await one.store.waiting(), waiting);
    assert.equal(received.length, 1);
    assert.equal(elsewhere.received.length, 0);
  });

test("reports that are too old are dropped unsent", async (t) => {
  const { url, received } = await collector(t);
  const clock = { now: MONDAY };
  const one = device(manifest(), clock);
  await one.submit(0.5);
  clock.now += one.manifest.maxAge + 1;
  assert.equal(await one.store.send(url), 0);
  assert.equal(await one.store.waiting(), 0);
  assert.equal(received.length, 0);
});

test("a pause does not outlast a clock that was set back", async (t) => {
  const { url } = await collector(t, [[503, { "Retry-After": "60" }]]);
  const clock = { now: MONDAY + 240 * HOUR };
  const one = device(manifest(), clock);
  await one.submit(0.5);
  assert.equal(await one.store.send(url), 0);
  clock.now -= 48 * HOUR;
  assert.equal(await one.store.send(url), 1);
});

test("two senders at once send each message once", async (t) => {
  const { url, received } = await collector(t);
  const storage = memoryStorage();
  const [a, b] = [device(manifest(), undefined, storage), device(manifest(), undefined, storage)];
  for (let i = 0; i < 5; i++) await a.submit(0.5);
  const taken = await Promise.all([a.store.send(url), b.store.send(url)]);
  assert.equal(taken[0] + taken[1], 5);
  assert.equal(new Set(received.map(({ body }) => body)).size, 5);
  assert.equal(received.length, 5);
});

test("a full queue refuses before anything is spent", async () => {
  const one = device(manifest({ budget: 752 }));
  for (let i = 0; i < 1000; i++) await one.store.keep([0], MONDAY);
  await assert.rejects(one.submit(0.5), /queue/);
  for (let i = 0; i < 1002; i++) await one.report(0.5);
  await assert.rejects(one.report(0.5), OverBudgetError);
});

test("Retry-After is a number of seconds or a date, at most a day", () => {
  assert.equal(parseRetryAfter("7", MONDAY), 7000);
  assert.equal(parseRetryAfter("999999999999999999999", MONDAY), 24 * HOUR);
  assert.equal(parseRetryAfter(new Date(MONDAY + HOUR).toUTCString(), MONDAY), HOUR);
  for (const header of [null, "soon", "-5", "", new Date(0).toUTCString()])
    assert.equal(parseRetryAfter(header, MONDAY), undefined);
});
