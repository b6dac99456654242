// The storage of files: processes take turns, whoever dies or stops, and what was written is there.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileStorage } from "../dist/node.js";
import { device, manifest } from "./support.js";

function folder(t) {
  const made = fs.mkdtempSync(join(tmpdir(), "hushgram-"));
  t.after(() => fs.rmSync(made, { recursive: true }));
  return join(made, "store");
}

const add = (storage) => storage.update((text) => String(Number(text ?? 0) + 1));

/** Runs a program of the client; what it printed. */
function run(program) {
  const options = { cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] };
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], options);
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  return Object.assign(child, { ended: new Promise((resolve) => child.on("close", () => resolve(output))) });
}

test("many processes at once never spend more than the budget together, nor less", async (t) => {
  const path = folder(t);
  const program = `
    import { fileStorage } from "../dist/node.js";
    import { device, manifest } from "./support.js";
    const one = device(manifest({ budget: 7.5 }), undefined, fileStorage(${JSON.stringify(path)}));
    let granted = 0;
    for (let i = 0; i < 10; i++) granted += await one.report(0.5).then(() => 1, () => 0);
    console.log(granted);`;
  const granted = await Promise.all([1, 2, 3].map(() => run(program).ended));
  assert.equal(granted.reduce((sum, output) => sum + Number(output), 0), 10);
});

test("processes that are killed spend one budget, and lose at most the report that they were at", async (t) => {
  const path = folder(t);
  const program = `
    import { OverBudgetError, fileStorage } from "../dist/node.js";
    import { device, manifest } from "./support.js";
    const one = device(manifest({ budget: 30 }), undefined, fileStorage(${JSON.stringify(path)}, 50));
    try {
      for (;;) console.log(await one.submit(0.5));
    } catch (error) {
      if (!(error instanceof OverBudgetError)) throw error;
    }`;
  for (let kills = 0; kills < 3; kills++) {
    const child = run(program);
    child.stdout.once("data", () => child.kill("SIGKILL"));
    await child.ended;
  }
  await run(program).ended;
  const waiting = await device(manifest(), undefined, fileStorage(path)).store.waiting();
  assert(waiting >= 37 && waiting <= 40, `${waiting}`);
});

test("a queue is there after a restart", async (t) => {
  const path = folder(t);
  await device(manifest(), undefined, fileStorage(path)).submit(0.5);
  assert.equal(await device(manifest(), undefined, fileStorage(path)).store.waiting(), 1);
});

test("what a holder that died held is taken over, and what it left half-written is not read", async (t) => {
  const path = folder(t);
  await add(fileStorage(path));
  fs.renameSync(join(path, "free"), join(path, "held-dead"));
  fs.writeFileSync(join(path, "held-dead", "half"), "99");
  await add(fileStorage(path, 50));
  assert.deepEqual(fs.readdirSync(path), ["free"]);
  assert.deepEqual(fs.readdirSync(join(path, "free")), ["state"]);
  assert.equal(fs.readFileSync(join(path, "free", "state"), "utf8"), "2");
});

test("a holder that was only slow changes nothing any more, and is told", async (t) => {
  const path = folder(t);
  await add(fileStorage(path));
  const slow = fileStorage(path).update((text) => {
    const [held] = fs.readdirSync(path);
    fs.renameSync(join(path, held), join(path, "held-other")); // as one does who took it for dead
    return text + "0";
  });
  await assert.rejects(slow, { code: "ENOENT" });
  assert.equal(fs.readFileSync(join(path, "held-other", "state"), "utf8"), "1");
});

test("if the change throws, or the disk does not take it, nothing is written and the next has its turn", async (t) => {
  const path = folder(t);
  await add(fileStorage(path));
  await assert.rejects(fileStorage(path).update(() => assert.fail("no")), /no/);
  await assert.rejects(fileStorage(path).update(() => ({})), TypeError);
  await add(fileStorage(path));
  assert.equal(fs.readFileSync(join(path, "free", "state"), "utf8"), "2");
});

test("a storage that was emptied or damaged means no report", async (t) => {
  for (const damage of [
    (path) => fs.rmSync(join(path, "free"), { recursive: true }),
    (path) => fs.rmSync(join(path, "free", "state")),
    (path) => fs.writeFileSync(join(path, "free", "state"), ""),
    (path) => fs.truncateSync(join(path, "free", "state"), 12),
    (path) => fs.renameSync(join(path, "free"), join(path, "other")),
  ]) {
    const path = folder(t);
    const one = device(manifest({ budget: 3 }), undefined, fileStorage(path, 50));
    await one.report(0.5);
    damage(path);
    await assert.rejects(one.report(0.5));
  }
});

test("of processes that create it at once one does", async (t) => {
  const path = folder(t);
  const program = `
    import { fileStorage } from "../dist/node.js";
    await fileStorage(${JSON.stringify(path)}).update((text) => String(Number(text ?? 0) + 1));`;
  await Promise.all([1, 2, 3].map(() => run(program).ended));
  assert.equal(fs.readFileSync(join(path, "free", "state"), "utf8"), "3");
  assert.deepEqual(fs.readdirSync(join(path, "..")), ["store"]);
});
