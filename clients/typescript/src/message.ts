import type { Manifest } from "./manifest.js";

export const REPORT = "8d51ac06d359ba88";
export const BATCH = "f5c4f5368c715f19";

/**
 * The bytes of a message, in Avro's single-object encoding: of a cell a Report; of a list of cells, which have one group
 * and time, a ReportBatch.
 */
export function encode(
  manifest: Manifest,
  cells: number | readonly number[],
  group: string | undefined,
  time: number,
  id: Iterable<number>,
): number[] {
  const width = [1, 2, 4, 8].find((width) => manifest.cells <= 256 ** width)!;
  const single = typeof cells === "number";
  return [
    ...fromHex("c301" + (single ? REPORT : BATCH)),
    ...text(manifest.collection),
    ...fromHex(manifest.revision),
    ...(single
      ? long(cells)
      : bytes(cells.flatMap((cell) => Array.from(Array(width), (_, i) => Math.floor(cell / 256 ** i) & 255)))),
    ...long(manifest.cut(time)),
    ...(group === undefined ? [0] : [2, ...text(group)]),
    2,
    ...id,
  ];
}

/** Avro's long: zigzag, then seven bits a byte, the lowest first. */
function long(number: number): number[] {
  const encoded = [];
  let rest = BigInt(number) * 2n;
  if (rest < 0) rest = ~rest;
  for (; rest > 127n; rest >>= 7n) encoded.push(Number(rest & 127n) + 128);
  return [...encoded, Number(rest)];
}

/** Avro's bytes. */
const bytes = (content: ArrayLike<number> & Iterable<number>): number[] => [...long(content.length), ...content];

const text = (string: string): number[] => bytes(new TextEncoder().encode(string));

export const fromHex = (hex: string): number[] => hex.match(/../g)!.map((digits) => parseInt(digits, 16));
