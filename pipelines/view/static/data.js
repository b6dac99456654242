// Where data comes from: chunks inside the page, or a server; unpacked the same way, and kept while they are fresh.
"use strict";

const LIVE = document.getElementById("data-outline") === null;
const KEPT = 64; // chunks: as many as a person looks at in a while
const kept = new Map();

/** The outline if it differs from the version that is known, or null. */
async function fetchOutline(version) {
  if (!LIVE) return version === "none" ? unpack(await embedded("outline")) : null;
  const answer = await request(`data/outline/${version}`);
  return answer.status === 204 ? null : unpack(await answer.arrayBuffer());
}

/** A group's series or a window's pictures, by id and stamp of the outline; ids are those of one run of a server. */
function fetchChunk(run, { id, stamp }) {
  const path = `data/${run}/${id}`;
  const known = kept.get(path);
  if (known?.stamp === stamp) return known.content;
  const bytes = LIVE ? request(path).then((answer) => answer.arrayBuffer()) : embedded(id);
  const content = bytes.then(unpack);
  content.catch(() => kept.delete(path));
  kept.delete(path);
  kept.set(path, { stamp, content });
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return content;
}

async function request(path) {
  const answer = await fetch(path, { cache: "no-store", credentials: "omit" });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return answer;
}

/** Scripts run before the rest of a large file has come: what is not there yet is waited for. */
async function embedded(id) {
  const find = () => document.getElementById(`data-${id}`);
  if (find() === null && document.readyState === "loading") {
    await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
  }
  if (find() === null) throw new Error("the page’s file is not whole");
  const text = atob(find().textContent);
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

/** What `pack` in data.py made: JSON, with arrays of exact numbers beside it. */
async function unpack(packed) {
  const stream = new Response(packed).body.pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const text = new TextDecoder().decode(bytes.subarray(4, 4 + length));
  const planes = bytes.subarray(4 + length);
  const size = planes.length / 8;
  const ordered = new Uint8Array(planes.length);
  for (let place = 0; place < 8; place++) {
    for (let index = 0; index < size; index++) ordered[8 * index + place] = planes[place * size + index];
  }
  const numbers = new Float64Array(ordered.buffer);
  return JSON.parse(text, (_, value) => {
    const where = value?.$;
    return where === undefined ? value : numbers.subarray(where[0], where[0] + where[1]);
  });
}
