// What happens when the choice or the data changes.
"use strict";

const POLL_MILLISECONDS = 1000;
let drawings = 0;
let drawn = ""; // what the pictures show, to leave them alone while nothing of it changes
let dimming; // what takes its time is dimmed meanwhile
let astray = ""; // what a link named and the data does not have, in words, until something else is chosen

function choose(change) {
  chosen = { ...chosen, ...change };
  astray = "";
  show();
}

async function show() {
  const drawing = ++drawings;
  showAround();
  if (contents.collections.length === 0) return;
  const { collection, window, groups, missing } = resolve();
  if (contents.unread === 0) keep(collection, groups, missing); // what a link names may still be read
  showChoice(collection, window, groups);
  showSides(collection);
  const { threshold, ...drawnFor } = chosen; // a threshold is moved without drawing everything anew
  const sides = resolveSides(collection, window);
  const seen = [contents.run, collection, window.id, window.stamp, groups, drawnFor, sides, colour("page")];
  const wanted = JSON.stringify(seen);
  if (wanted === drawn) {
    placeThreshold(); // of it a link may have another
    document.documentElement.dataset.drawn ??= drawing;
    return dim(false); // back to it before anything else was drawn
  }
  delete document.documentElement.dataset.drawn; // until all of it is, again
  dim(true);
  try {
    const [pictures, ...series] = await Promise.all([window, ...groups].map((part) => fetchChunk(contents.run, part)));
    if (drawing !== drawings) return; // chosen anew in the meantime
    drawn = ""; // until all of it is
    const view = viewOf(collection, window, groups, pictures, series);
    if (!(await drawAll(showChosen(view), drawing))) return;
    dim(false); // what follows may have to be estimated first, and stands apart
    const compared = sides && (await Promise.all(sides.map((side) => fetchSide(side))));
    if (drawing !== drawings || !(await drawAll(showComparison(view, compared), drawing))) return;
    drawn = wanted;
    document.documentElement.dataset.drawn = drawing;
    const changes = await fetchChanges(collection);
    if (drawing === drawings) drawAll(showChanges(view, changes), drawing);
  } catch (error) {
    if (drawing === drawings) notice(`This window’s data could not be had: ${error.message}`);
  } finally {
    if (drawing === drawings) dim(false);
  }
}

/** Draws one picture after the other, so that each can be seen before the rest; whether nothing was chosen anew. */
async function drawAll(pictures, drawing) {
  for (const draw of pictures) {
    draw();
    await new Promise((resolve) => setTimeout(resolve));
    if (drawing !== drawings) return false;
  }
  return true;
}

function dim(wanted) {
  clearTimeout(dimming);
  if (wanted) dimming = setTimeout(() => at("collection").classList.add("stale"), 150);
  else at("collection").classList.remove("stale");
}

/** What is shown becomes the choice, and the link. */
function keep(collection, groups, missing) {
  const window = missing.includes("window") ? null : chosen.window;
  chosen = { ...chosen, collection: collection.name, window, groups: groups.map(({ name }) => name) };
  history.replaceState(null, "", linkTo(chosen));
  if (missing.length) astray = `The link names a ${missing.join(" and a ")} that is not here; this is what there is.`;
  notice(astray);
}

/** Words and tables at once; the pictures are left to be drawn, in the order in which they are looked at. */
function showChosen(view) {
  showWarnings(view);
  showMarks(view);
  const here = view.groups.length > 0;
  const distributed = view.groups.some(({ picture }) => picture.probabilities !== null);
  const sections = {
    short: here,
    "in-numbers": here,
    distribution: distributed,
    trust: here,
    "only-mean": here && !distributed,
    moved: here,
  };
  for (const [section, wanted] of Object.entries(sections)) at(section).hidden = !wanted;
  if (here) {
    at("answer").replaceChildren(...answer(view));
    at("numbers").replaceChildren(numbersTable(view));
    showTrust(view);
    showMethod(view);
  }
  if (distributed) showThreshold(view);
  const apart = standApart(view.groups);
  at("arrangement").hidden = view.groups.length < 2;
  at("arrangement").querySelector(`[value=${apart ? "apart" : "together"}]`).checked = true;
  at("unzoom").hidden = chosen.zoom === null;
  const wanted = showQuantities(view);
  const moved = showPanes(view);
  const several = view.all.some(({ windows }) => windows.length > 1);
  at("time").hidden = !several;
  if (at("changes").dataset.of !== view.collection.name) at("changes").replaceChildren(); // of another collection
  at("changes").dataset.of = view.collection.name;
  at("time-about").hidden = several;
  tableOf = (picture) => TABLES[picture](view, wanted);
  document.querySelectorAll("details[data-table]").forEach(fillTable);
  return [
    () => drawReports(at("reports"), view, (window) => choose({ window: windowKey(window) })),
    ...(distributed ? [() => drawDensity(at("density"), view, apart), () => drawCdf(at("cdf"), view, apart)] : []),
    ...(here && !distributed ? [() => drawMean(at("mean"), view)] : []),
    ...(several ? [() => drawTime(at("time"), view, wanted)] : []),
    ...(moved ? [() => drawPanes(at("panes"), view)] : []),
  ];
}

let tableOf = () => "";

/** A table is made when it is looked at: it may have thousands of rows. */
function fillTable(details) {
  const box = details.querySelector(".tall") ?? make("div", [], { className: "tall", tabIndex: 0 });
  details.append(box);
  const wanted = details.open && details.closest("[hidden]") === null;
  box.replaceChildren(...(wanted ? [tableOf(details.dataset.table)] : []));
}

function listen() {
  const step = (by) => () => {
    const { collection, window } = resolve();
    const next = collection.windows[collection.windows.indexOf(window) + by];
    if (next) choose({ window: windowKey(next) });
  };
  at("earlier").addEventListener("click", step(-1));
  at("later").addEventListener("click", step(1));
  at("newest").addEventListener("click", () => choose({ window: null }));
  at("window").addEventListener("input", ({ target }) =>
    choose({ window: windowKey(resolve().collection.windows[target.value]) }),
  );
  at("unzoom").addEventListener("click", () => choose({ zoom: null }));
  listenToThreshold();
  listenToSides();
  at("arrangement").addEventListener("change", ({ target }) => choose({ apart: target.value === "apart" }));
  at("quantity").addEventListener("change", ({ target }) =>
    choose({ over: target.value === "" ? null : target.value === "mean" ? "mean" : Number(target.value) }),
  );
  for (const details of document.querySelectorAll("details[data-table]"))
    details.addEventListener("toggle", () => fillTable(details));
  at("skip").addEventListener("click", (event) => {
    event.preventDefault();
    at("main").focus();
  });
  at("theme").addEventListener("click", ({ target }) => {
    const names = Object.keys(THEMES);
    const next = names[(names.indexOf(target.value) + 1) % names.length];
    remembered(next);
    setTheme(next);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  window.addEventListener("hashchange", () => {
    chosen = readLink();
    astray = "";
    show();
  });
}

async function refresh() {
  try {
    const newer = await fetchOutline(contents.version);
    if (newer !== null) {
      contents = newer;
      await show();
    }
    if (LIVE) tell("live", contents.unread ? `Reading, ${count(contents.unread)} files left` : "Live");
  } catch (error) {
    if (!LIVE) throw error;
    tell("lost", "The server does not answer; trying again");
  }
}

function tell(kind, words) {
  if (at("status").textContent === words) return;
  at("status").className = kind;
  at("status").textContent = words;
}

async function begin() {
  setTheme(Object.hasOwn(THEMES, remembered() ?? "") ? remembered() : "auto");
  addExports();
  listen();
  await refresh();
  while (LIVE) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
    if (!document.hidden) await refresh();
  }
}

begin();
