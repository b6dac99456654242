/** A manifest, value or group that must not be used. Nothing was drawn, spent or stored. */
export class RefusedError extends Error {}

/** No report now: the budget of the period is spent, it is not this device's slot, or the clock was set back. */
export class OverBudgetError extends RefusedError {}

export function need(condition: unknown, what: string): asserts condition {
  if (!condition) throw new RefusedError(what);
}
