// Prints the size of the browser bundle; fails if it has grown beyond the recorded size, or beyond 4 KB.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const MOST = 4096;
const bundle = readFileSync(new URL("dist/hushgram.min.js", import.meta.url));
const recorded = Number(readFileSync(new URL("size.txt", import.meta.url), "utf8"));
const gzipped = gzipSync(bundle, { level: 9 }).length;
console.log(`hushgram.min.js: ${bundle.length} bytes, gzipped ${gzipped}; recorded ${recorded}, at most ${MOST}`);
process.exitCode = gzipped <= Math.min(recorded, MOST) ? 0 : 1;
