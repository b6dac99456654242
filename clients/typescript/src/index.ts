export { Device } from "./device.js";
export { load, type Budget, type Manifest } from "./manifest.js";
export { OverBudgetError, RefusedError } from "./refusals.js";
export { type TextStorage } from "./storage.js";
export { Store } from "./store.js";
