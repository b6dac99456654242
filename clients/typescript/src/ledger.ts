import type { Below } from "./below.js";
import type { Manifest } from "./manifest.js";

/** Start and end of an account's last period, and what was spent in it. */
export type Account = [start: number, end: number, spent: number];

/** Accounts by their names, and of those with slots, how many there are and which is this device's. */
export type Ledger = [accounts: Record<string, Account>, slots: Record<string, [slots: number, slot: number]>];

/**
 * Takes the cost of the reports from all budgets, or from none and says why. All integers are below 2^53: remainders,
 * and quotients that are rounded down, are exact. The slot is kept also where there is no report.
 */
export function spend(
  [accounts, kept]: Ledger,
  manifest: Manifest,
  now: number,
  reports: number,
  below: Below,
): "slot" | "clock" | "budget" | undefined {
  const { slots, budgets, cost } = manifest;
  if (slots > 1) {
    const [account, , every] = budgets[0]!;
    if (kept[account]?.[0] !== slots) kept[account] = [slots, Number(below(BigInt(slots)))];
    if (Math.floor(((now % every) * slots) / every) !== kept[account]![1]) return "slot";
  }
  const after: typeof accounts = {};
  for (const [account, amount, every] of budgets) {
    const period = now - (now % every);
    let [start, end, spent] = accounts[account] ?? [period, period + every, 0];
    if (now < start) return "clock";
    if (now >= end) [start, end, spent] = [Math.max(period, end), period + every, 0];
    spent += reports * cost;
    if (!(spent <= amount)) return "budget";
    after[account] = [start, end, spent];
  }
  Object.assign(accounts, after);
  return;
}
