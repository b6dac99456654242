import { need } from "./refusals.js";

/** Whatever was sent: it is checked as it is read. */
export type Json = any;

/** Exactly these entries, so that none is passed over which could change what is drawn. */
export function only(source: Json, names: string): void {
  need("" + Object.keys(source).sort() === "" + names.split(" ").sort(), names);
}

/** A JSON number that is a whole one, and exact in every language. */
export function count(value: Json, least = 0, most = 2 ** 53): number {
  need(Number.isInteger(value) && value >= least && value <= most, "value " + value);
  return value;
}

/** Text of this form. */
export function text(value: Json, form: RegExp): string {
  need(typeof value === "string" && form.test(value), "value " + value);
  return value;
}

/** A whole number as decimal text, of at most 63 bits. */
export function whole(value: Json): bigint {
  const number = BigInt(text(value, /^(0|[1-9]\d{0,18})$/));
  need(!(number >> 63n), "value " + value);
  return number;
}

/** A finite double as decimal text. */
export function real(value: Json): number {
  const number = +text(value, /^-?\d[\d.]{0,30}(e[+-]?\d{1,4})?$/i);
  need(isFinite(number), "value " + value);
  return number;
}

/** Text of 1 to 128 characters that UTF-8 can encode. */
export const label = (value: Json): string => text(value, /^\P{Cs}{1,128}$/u);
