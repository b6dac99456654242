export * from "./index.js";
export { fileStorage } from "./files.js";
