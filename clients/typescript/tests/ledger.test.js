// A device keeps to its budget, whatever its clock and its storage do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { OverBudgetError, RefusedError } from "../dist/node.js";
import { memoryStorage } from "../dist/storage.js";
import { countDraws, device, HOUR, manifest, MONDAY, WEEK } from "./support.js";

/** How many of the attempts are granted. */
async function granted(one, attempts = 5) {
  let count = 0;
  for (; attempts > 0; attempts--) {
    try {
      await one.report(0.5);
      count++;
    } catch (error) {
      assert(error instanceof OverBudgetError, error);
    }
  }
  return count;
}

test("it spends its budget in each period, and no more over restarts", async () => {
  const storage = memoryStorage();
  for (let week = 0; week < 3; week++) {
    let count = 0;
    for (let day = 0; day < 7; day++) {
      const now = MONDAY + week * WEEK + day * 24 * HOUR;
      count += await granted(device(manifest({ budget: 1.6 }), { now }, storage), 1);
    }
    assert.equal(count, 2);
  }
});

test("a clock that is set back gives nothing back", async () => {
  const clock = { now: MONDAY + WEEK };
  const one = device(manifest({ budget: 0.75 }), clock);
  assert.equal(await granted(one), 1);
  for (const now of [MONDAY, 0, MONDAY + WEEK]) {
    clock.now = now;
    assert.equal(await granted(one), 0);
  }
  clock.now = MONDAY + 2 * WEEK;
  assert.equal(await granted(one), 1);
});

test("a clock that tells no time means no report", async () => {
  for (const now of [-1, NaN, Infinity, -Infinity, 2 ** 60]) {
    await assert.rejects(device(manifest({ budget: 3 }), { now }).report(0.5), RefusedError);
    await assert.rejects(device(manifest(), { now }).report(0.5), RefusedError);
  }
});

test("collections share the total, and none is taken where the other account refuses", async () => {
  const storage = memoryStorage();
  const open = (collection) => device(manifest({ budget: 1.5, total: 2.3, collection }), undefined, storage);
  const [a, b] = ["a", "__proto__"].map(open);
  assert.equal(await granted(a), 2);
  assert.equal(await granted(b), 1);
  const alone = device(manifest({ budget: 1.5, collection: "__proto__" }), undefined, storage);
  assert.equal(await granted(alone), 1);
});

test("a message of several reports costs as many", async () => {
  const one = device(manifest({ budget: 2.3 }));
  await assert.rejects(one.report([0.1, 0.2, 0.3, 0.4]), OverBudgetError);
  await one.report([0.1, 0.2, 0.3]);
  assert.equal(await granted(one), 0);
});

test("a slot is drawn once and kept, and reports come in it alone", async () => {
  const slots = new Set();
  for (let i = 0; i < 30; i++) {
    const storage = memoryStorage();
    const inside = [];
    for (let hour = 0; hour < 3 * 168; hour += 12) {
      const one = device(manifest({ budget: 75, slots: 7 }), { now: MONDAY + hour * HOUR }, storage);
      if (await granted(one, 1)) inside.push(hour % 168);
    }
    assert.equal(inside.length, 6);
    assert.equal(new Set(inside.map((hour) => Math.floor(hour / 24))).size, 1);
    slots.add(Math.floor(inside[0] / 24));
  }
  assert(slots.size > 2); // 30 devices share at most two of seven slots once in 10^14 times
});

test("what is refused draws nothing and spends nothing", async () => {
  const one = device(manifest({ budget: 0.75, groups: ["DE"] }));
  const draws = await countDraws(async () => {
    for (const value of [NaN, Infinity, -Infinity, undefined, "0.5", null, {}]) {
      await assert.rejects(one.report(value), RefusedError);
    }
    for (const values of [[], [0.5, NaN]]) await assert.rejects(one.report(values), RefusedError);
    await assert.rejects(one.report(0.5, "FR"), RefusedError);
  });
  assert.equal(draws, 0);
  await one.report(0.5, "DE");
});

test("storage that fails, before or after it has written, means no report and no draw", async () => {
  for (const written of [false, true]) {
    const memory = memoryStorage();
    const failing = {
      async update(change) {
        if (written) await memory.update(change);
        throw new Error("disk full");
      },
    };
    const one = device(manifest({ budget: 1.6 }), undefined, failing);
    const draws = await countDraws(() => assert.rejects(one.report(0.5), /disk full/));
    assert.equal(draws, 0);
    assert.equal(await granted(device(manifest({ budget: 1.6 }), undefined, memory)), written ? 1 : 2);
  }
});

test("storage that is not what was written means no report, whatever changed in it", async () => {
  let kept;
  const storage = { update: async (change) => void (kept = change(kept)) };
  const one = device(manifest({ budget: 3 }), undefined, storage);
  await one.report(0.5);
  const good = kept;
  for (let i = 0; i < good.length; i++) {
    kept = good.slice(0, i) + (good[i] === "0" ? "1" : "0") + good.slice(i + 1);
    await assert.rejects(one.report(0.5), RefusedError);
    kept = good.slice(0, i);
    await assert.rejects(one.report(0.5), RefusedError);
  }
  kept = good;
  await one.report(0.5);
});

test("an app fixes the largest ε itself", async () => {
  const { load } = await import("../dist/node.js");
  const { readFileSync } = await import("node:fs");
  const source = JSON.parse(readFileSync(process.env.MANIFEST, "utf8"));
  assert.equal(load(source, { mostEpsilon: 0.75 }).epsilon, 0.75);
  assert.throws(() => load(source, { mostEpsilon: 0.74 }), RefusedError);
  for (const bad of [null, 5, "text", [], {}, { format: "hushgram-manifest/1" }])
    assert.throws(() => load(bad), RefusedError);
});
