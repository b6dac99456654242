import type { Manifest } from "./manifest.js";

export const REPORT = "8d51ac06d359ba88";
export const BATCH = "f5c4f5368c715f19";

/**
 * A message, in Avro's single-object encoding, as hexadecimal digits: of a cell a Report; of a list of cells, which
 * have one group and time, a ReportBatch.
 */
export function encode(
  manifest: Manifest,
  cells: number | readonly number[],
  group: string | undefined,
  time: number,
  id: Iterable<number>,
): string {
  const width = [1, 2, 4, 8].find((width) => manifest.cells <= 256 ** width)!;
  return (
    "c301" +
    (typeof cells === "number" ? REPORT : BATCH) +
    text(manifest.collection) +
    manifest.revision +
    (typeof cells === "number"
      ? long(cells)
      : bytes(cells.flatMap((cell) => Array.from(Array(width), (_, i) => Math.floor(cell / 256 ** i) & 255)))) +
    long(manifest.cut(time)) +
    (group === undefined ? "00" : "02" + text(group)) +
    "02" +
    toHex(id)
  );
}

/** Avro's long: zigzag, then seven bits a byte, the lowest first. */
function long(number: number): string {
  let hex = "";
  let rest = BigInt(number) * 2n;
  if (rest < 0) rest = ~rest;
  for (; rest > 127n; rest >>= 7n) hex += toHex([Number(rest & 127n) + 128]);
  return hex + toHex([Number(rest)]);
}

/** Avro's bytes. */
const bytes = (content: ArrayLike<number> & Iterable<number>): string => long(content.length) + toHex(content);

const text = (string: string): string => bytes(new TextEncoder().encode(string));

export const toHex = (bytes: Iterable<number>): string =>
  Array.from(bytes, (byte) => (byte + 256).toString(16).slice(1)).join("");

export const fromHex = (hex: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(hex.match(/../g)!, (digits) => parseInt(digits, 16));
