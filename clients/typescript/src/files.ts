import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { TextStorage } from "./storage.js";

/** Milliseconds after which a holder that has not given back is taken for dead. A turn takes a few. */
const PATIENCE = 10_000;
const NOTHING_YET = "nothing yet\n";
const FREE = "free";

/**
 * A folder of the system's files, shared by any number of processes.
 *
 * The text lies in a folder inside it, and whoever uses it renames that folder first: `free` becomes `held-…`, with a
 * name that is used once. Renaming is atomic, so one of many succeeds, and the others wait. A holder that died is
 * noticed by a name that stays, and its folder is renamed again. If it was only slow, it finds nothing under its name
 * any more: what it wanted to write fails, and so does its report. So safety does not rest on the time of waiting.
 */
export function fileStorage(folder: string, patience = PATIENCE): TextStorage {
  folder = resolve(folder);
  return {
    async update(change) {
      create(folder);
      const held = await hold(folder, patience);
      try {
        replace(held, change);
      } finally {
        fs.renameSync(held, join(folder, FREE)); // fails if someone else has it now
      }
    },
  };
}

/** Makes the folder whole under another name first, so that of two processes one creates it. */
function create(folder: string): void {
  if (fs.existsSync(folder)) return;
  const made = `${folder}.${randomUUID()}`;
  fs.mkdirSync(join(made, FREE), { recursive: true });
  write(join(made, FREE, "state"), NOTHING_YET);
  try {
    fs.renameSync(made, folder);
    sync(dirname(folder));
  } catch (error) {
    fs.rmSync(made, { recursive: true });
    if (!fs.existsSync(folder)) throw error;
  }
}

/** Waits for the turn; the name under which nobody else has the text. */
async function hold(folder: string, patience: number): Promise<string> {
  const held = join(folder, `held-${randomUUID()}`);
  let holder = "";
  for (let since = performance.now(); ; await sleep(1 + Math.random() * 9)) {
    if (rename(join(folder, FREE), held)) return held;
    const names = fs.readdirSync(folder);
    if (names.join() !== holder) [holder, since] = [names.join(), performance.now()];
    if (performance.now() - since < patience) continue;
    const [stale] = names;
    if (names.length !== 1 || !stale!.startsWith("held-")) throw new Error(`${folder} is not as it was written`);
    if (rename(join(folder, stale!), held)) return held;
  }
}

/** Whether there was anything of that name. */
function rename(from: string, to: string): boolean {
  try {
    fs.renameSync(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

/** All or nothing, and on the disk. Nothing else runs in this process meanwhile, so a turn is short. */
function replace(held: string, change: (text: string | undefined) => string): void {
  const path = join(held, "state");
  for (const name of fs.readdirSync(held)) if (name !== "state") fs.unlinkSync(join(held, name)); // of those who died
  const text = fs.readFileSync(path, "utf8");
  const next = change(text === NOTHING_YET ? undefined : text);
  if (next === text) return;
  const made = join(held, randomUUID()); // a slow holder may still write into its own, which is not ours
  write(made, next);
  fs.renameSync(made, path);
  sync(held);
}

function write(path: string, text: string): void {
  const file = fs.openSync(path, "wx", 0o600);
  try {
    fs.writeFileSync(file, text);
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
}

function sync(folder: string): void {
  if (process.platform === "win32") return; // where folders cannot be opened
  const file = fs.openSync(folder, "r");
  try {
    fs.fsyncSync(file);
  } finally {
    fs.closeSync(file);
  }
}
