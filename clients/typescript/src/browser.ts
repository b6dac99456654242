export * from "./index.js";
export { browserStorage } from "./indexeddb.js";
