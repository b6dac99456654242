/** Answers `hushgram conform`: one JSON object a line, until the input ends. */
import { createInterface } from "node:readline";
import { below as ownBelow, type Below } from "./below.js";
import { checkGroup, Device } from "./device.js";
import { spend, type Ledger } from "./ledger.js";
import { load, type Manifest } from "./manifest.js";
import { encode, fromHex } from "./message.js";
import { real, type Json } from "./parsing.js";
import { need } from "./refusals.js";
import { memoryStorage } from "./storage.js";
import { Store } from "./store.js";

let manifest: Manifest | undefined;

async function answer(request: Json): Promise<object> {
  if ("manifest" in request) {
    manifest = undefined;
    manifest = load(request.manifest);
  }
  need(manifest, "no manifest");
  const { group, times, slot, time } = request;
  if (times) return { granted: grant(manifest, slot, times) };
  const value = real(request.value);
  if (request.upload) {
    return { upload: toHex(await new Device(manifest, new Store(memoryStorage())).report(value, group)) };
  }
  checkGroup(manifest, group);
  const position = manifest.positionOf(value);
  const script = request.draws?.map(([limit, drawn]: string[]) => [BigInt(limit!), BigInt(drawn!)]);
  const below = script ? scripted(script) : ownBelow;
  const cells: number[] = [];
  for (let i = request.repeat ?? 1; i > 0; i--) cells.push(manifest.cell(position, below));
  need(!script?.length, "draws are left over");
  const answered: Json = "repeat" in request ? { cells } : { position: Number(position), cell: cells[0] };
  if (request.id !== undefined) {
    const id = fromHex(request.id);
    if (!("repeat" in request)) answered.report = toHex(encode(manifest, cells[0]!, group, time, id));
    answered.batch = toHex(encode(manifest, cells, group, time, id));
  }
  return answered;
}

const toHex = (bytes: Iterable<number>): string => Buffer.from([...bytes]).toString("hex");

/** Draws that are told beforehand. */
function scripted(script: [bigint, bigint][]): Below {
  return (limit) => {
    const [expected, drawn] = script.shift() ?? [];
    need(drawn !== undefined && limit === expected, `draw below ${limit}: the script has one below ${expected}`);
    return drawn;
  };
}

/** Whether a ledger that begins empty, in the given slot, grants a report at each of the times. */
function grant(manifest: Manifest, slot: number, times: number[]): boolean[] {
  const ledger: Ledger = [{}, {}];
  need(times.every((now) => Number.isSafeInteger(now) && now >= 0), "a time before 1970");
  return times.map((now) => !spend(ledger, manifest, now, 1, () => BigInt(slot)));
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  let answered: object;
  try {
    answered = await answer(JSON.parse(line));
  } catch (error) {
    answered = { refused: String(error) };
  }
  process.stdout.write(JSON.stringify(answered) + "\n");
}
