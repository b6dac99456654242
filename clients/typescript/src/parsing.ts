import { need } from "./refusals.js";

/** Whatever was sent: it is checked as it is read. */
export type Json = any;

const check = <T>(value: T, fine: unknown): T => (need(fine, "value " + value), value);

/** The values of exactly these entries: one that is not known could change what is drawn. */
export function entries(source: Json, names: string): Json[] {
  const found = names.split(" ").map((name) => source[name]);
  need(Object.keys(source).length === found.length && !found.includes(undefined), names);
  return found;
}

/** What is read of each item of a list. */
export const list = <T>(value: Json, most: number, read: (item: Json) => T): T[] =>
  check(value, value.length <= most).map(read); // which text has not

/** A JSON number that is a whole one, and exact in every language; 1.0 is 1. */
export const count = (value: Json, least = 0, most: number = value): number =>
  check(value, Number.isSafeInteger(value) && value >= least && value <= most);

export const truth = (value: Json): boolean => check(value, value === !!value);

/** Text of this form. */
export const text = (value: Json, form: RegExp): string => check(value, typeof value === "string" && form.test(value));

/** A whole number from 1 on as decimal text, of at most 63 bits. */
export function natural(value: Json): bigint {
  const number = BigInt(text(value, /^[1-9]\d{0,18}$/));
  return check(number, !(number >> 63n));
}

/** A finite double as decimal text of at most 32 characters. */
export function real(value: Json): number {
  const number = +text(value, /^-?\d+(\.\d+)?(e[+-]?\d+)?$/);
  return check(number, isFinite(number) && value.length < 33);
}

/** Text of 1 to 128 characters that UTF-8 can encode; U+FFFD is what readers make of any other. */
export const label = (value: Json): string => text(value, /^[^\p{Cs}\ufffd]{1,128}$/u);
