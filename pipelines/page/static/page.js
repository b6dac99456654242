// What is chosen, where it is kept (the address after #), and what happens when it or the data changes.
"use strict";

const POLL_MILLISECONDS = 1000;
const at = (id) => document.getElementById(id);

let contents = { version: 0, unread: 0, collections: [], refused: [], problems: [], notes: {} };
let chosen = readLink();
let drawings = 0;

// The link ---------------------------------------------------------------------------------------------------------------

/** A choice is { collection, window: "START-END" or null for the newest, groups: [names, null for all], apart, over }. */
function readLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const over = link.get("over");
  return {
    collection: link.get("collection"),
    window: link.get("window"),
    groups: [...(link.has("all") ? [null] : []), ...link.getAll("group")],
    apart: link.has("apart"),
    over: over === null || over === "mean" ? over : Number(over),
  };
}

function linkTo({ collection, window, groups, apart, over }) {
  const link = new URLSearchParams({ collection });
  if (window !== null) link.set("window", window);
  if (groups.includes(null)) link.set("all", "");
  for (const group of groups) if (group !== null) link.append("group", group);
  if (apart) link.set("apart", "");
  if (over !== null) link.set("over", over);
  return `#${link}`;
}

const windowKey = ({ start, end }) => `${start}-${end}`;

function choose(change) {
  chosen = { ...chosen, ...change };
  show();
}

// What is shown ----------------------------------------------------------------------------------------------------------

/** The chosen things themselves; what a link names and the data does not have is told, and replaced. */
function resolve() {
  const { collections } = contents;
  const missing = [];
  const collection = collections.find(({ name }) => name === chosen.collection) ?? collections[0];
  if (chosen.collection !== null && collection.name !== chosen.collection) missing.push("collection");
  const windows = collection.windows;
  const window = windows.find((each) => windowKey(each) === chosen.window) ?? windows.at(-1);
  if (chosen.window !== null && windowKey(window) !== chosen.window) missing.push("window");
  let groups = collection.groups.map((group, index) => ({ ...group, index })).filter(({ name }) => chosen.groups.includes(name));
  if (groups.length < chosen.groups.length) missing.push("group");
  if (groups.length === 0) groups = [{ ...collection.groups[0], index: 0 }];
  return { collection, window, groups, missing };
}

async function show() {
  const drawing = ++drawings;
  showAround();
  if (contents.collections.length === 0) return;
  const { collection, window, groups, missing } = resolve();
  chosen = { ...chosen, collection: collection.name, groups: groups.map(({ name }) => name) };
  if (missing.length) chosen.window = missing.includes("window") ? null : chosen.window;
  history.replaceState(null, "", linkTo(chosen));
  showChoice(collection, window, groups);
  if (missing.length) notice(`The link names a ${missing.join(" and a ")} that is not here. This is what there is instead.`);
  const waiting = setTimeout(() => at("collection").classList.add("stale"), 150);
  try {
    const [pictures, ...series] = await Promise.all([window, ...groups].map(fetchChunk));
    if (drawing !== drawings) return; // chosen anew in the meantime
    showChosen({ collection, window, groups: withData(collection, groups, pictures, series) }, groups);
    if (!missing.length) notice("");
    document.documentElement.dataset.drawn = drawing;
  } catch (error) {
    if (drawing === drawings) notice(`This window’s data could not be had: ${error.message}`);
  } finally {
    clearTimeout(waiting);
    if (drawing === drawings) at("collection").classList.remove("stale");
  }
}

/** Groups with their pictures and series; those without a report in this window are left out. */
function withData(collection, groups, pictures, series) {
  const windows = new Map(collection.windows.map((window) => [window.id, window]));
  return groups.flatMap((group, place) => {
    const picture = pictures.groups.find(({ id }) => id === group.id);
    const rows = series[place].windows;
    if (picture === undefined || !rows.every((id) => windows.has(id))) return [];
    return [{ ...group, picture, series: series[place], windows: rows.map((id) => windows.get(id)) }];
  });
}

function notice(words) {
  at("notice").textContent = words;
  at("notice").hidden = words === "";
}

/** What does not depend on the choice. */
function showAround() {
  const { collections, refused, problems, unread } = contents;
  at("empty").hidden = collections.length > 0;
  at("empty").textContent = unread ? "Reading the data …"
    : LIVE ? "No snapshots here yet.\nThis page fills by itself as they are written." : "No snapshots here.";
  at("collection").hidden = collections.length === 0;
  at("collections").hidden = collections.length === 0;
  at("collections").replaceChildren(make("ul", collections.map(collectionLink)));
  at("refused").hidden = refused.length === 0;
  at("refused").querySelector(".scroll").replaceChildren(refusedTable(refused));
  at("problems").hidden = problems.length === 0;
  at("problems").querySelector(".scroll").replaceChildren(problemsTable(problems));
}

function collectionLink(collection) {
  const { label, unit, low, high, windows, reports, warned } = collection;
  const link = make("a", [
    make("strong", named(label)),
    make("span", [`${bound(low)} to ${bound(high)} `, named(unit)]),
    make("span", counted(windows.length, "window")),
    make("span", `newest: ${counted(reports, "report")}`),
    ...(warned ? [make("span", `${counted(warned, "window")} with warnings`, { className: "warned" })] : []),
  ]);
  link.href = linkTo({ collection: collection.name, window: null, groups: [], apart: chosen.apart, over: null });
  if (collection.name === (chosen.collection ?? contents.collections[0].name)) link.setAttribute("aria-current", "page");
  return make("li", link);
}

const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

function showChoice(collection, window, groups) {
  const { windows } = collection;
  const place = windows.indexOf(window);
  at("name").replaceChildren(named(collection.label));
  at("about").replaceChildren(
    `${collection.integer ? "Whole numbers" : "Numbers"} from ${bound(collection.low)} to ${bound(collection.high)}`,
    ...(collection.unit ? [" ", named(collection.unit)] : []), collection.scale === "log" ? ", on a logarithmic scale" : "",
    `. ${counted(windows.length, "window")}, estimator ${collection.estimator}.`,
  );
  at("window").max = windows.length - 1;
  at("window").value = place;
  at("window").disabled = windows.length === 1;
  at("window").setAttribute("aria-valuetext", window.label);
  at("window-label").replaceChildren(`${window.label} UTC `, make("span", `(${count(place + 1)} of ${count(windows.length)})`));
  at("earlier").disabled = place === 0;
  at("later").disabled = place === windows.length - 1;
  at("newest").setAttribute("aria-pressed", chosen.window === null);
  at("newest").textContent = LIVE ? "Follow the newest" : "Newest";
  at("groups").hidden = collection.groups.length < 2;
  showChips(collection, groups);
}

/** Boxes are kept while they are the right ones: the keyboard's focus stays where it was. */
function showChips(collection, groups) {
  const box = at("groups").querySelector("div");
  const wanted = collection.groups.map(({ id }) => id).join();
  if (box.dataset.groups !== wanted) {
    box.dataset.groups = wanted;
    box.replaceChildren(...collection.groups.map((group, index) => {
      const input = make("input", [], { type: "checkbox", value: index });
      input.addEventListener("change", () => {
        const marked = [...box.querySelectorAll("input:checked")].map(({ value }) => resolve().collection.groups[value].name);
        choose({ groups: marked });
      });
      return make("label", [input, ...groupName({ ...group, index })], { className: "chip" });
    }));
  }
  const marked = new Set(groups.map(({ index }) => index));
  box.querySelectorAll("input").forEach((input, index) => (input.checked = marked.has(index)));
  box.querySelectorAll(".swatch").forEach((found, index) => (found.style.borderTopColor = groupColour(index)));
}

// Pictures and words -----------------------------------------------------------------------------------------------------

function showChosen(view, asked) {
  const silent = asked.filter(({ id }) => !view.groups.some((group) => group.id === id));
  at("answer").textContent = "";
  showWarnings(view, silent);
  const there = view.groups.length > 0;
  for (const section of at("collection").querySelectorAll("section:not(:first-child):not(#warnings)")) section.hidden = !there;
  if (!there) return;
  const distributed = view.groups.some(({ picture }) => picture.probabilities !== null);
  at("distribution").hidden = !distributed;
  at("only-mean").hidden = distributed;
  at("arrangement").hidden = view.groups.length < 2;
  at("arrangement").querySelector(`[value=${chosen.apart ? "apart" : "together"}]`).checked = true;
  at("answer").replaceChildren(...answer(view));
  at("numbers").replaceChildren(numbersTable(view));
  const apart = chosen.apart && view.groups.length > 1;
  drawReports(at("reports"), view, (window) => choose({ window: windowKey(window) }));
  if (distributed) {
    drawDensity(at("density"), view, apart);
    drawCdf(at("cdf"), view, apart);
  } else drawMean(at("mean"), view);
  const wanted = showQuantities(view, distributed);
  drawTime(at("time"), view, wanted);
  showPanes(view);
  tableOf = (picture) => TABLES[picture](view, wanted);
  document.querySelectorAll("details[data-table]").forEach(fillTable);
}

let tableOf = () => "";

/** A table is made when it is looked at: it may have thousands of rows. */
function fillTable(details) {
  details.querySelector(".tall")?.remove();
  if (details.open) details.append(make("div", tableOf(details.dataset.table), { className: "tall", tabIndex: 0 }));
}

/** The first group's estimate in a sentence or two. */
function answer({ collection, groups: [{ label, picture }], groups }) {
  const { reports, mean, mean_low, mean_high, quantiles, status } = picture;
  if (status === "no_reports") return ["There are no reports: nothing is known of this window."];
  const unit = () => (collection.unit ? [" ", named(collection.unit)] : []);
  const strong = (value) => make("b", number(value));
  const [low, median, high] = [0.05, 0.5, 0.95].map((share) => quantiles.find(([each]) => each === share));
  const who = groups.length > 1 || collection.groups.length > 1 ? [" of ", named(label)] : [];
  return [
    ...(median ? ["Half of the values", ...who, " are at or below ", strong(median[1]), ...unit(), ` (95 % interval ${number(median[2])} to ${number(median[3])}). `] : []),
    ...(low && high ? ["Nine in ten lie between ", strong(low[1]), " and ", strong(high[1]), ". "] : []),
    "The mean", ...(median ? [] : who), " is ", make("b", plusMinus(mean, mean_low, mean_high)), ...unit(), `, from ${count(reports)} reports.`,
  ];
}

function showWarnings({ groups }, silent) {
  const by = new Map();
  for (const { label, picture } of groups) {
    for (const warning of picture.warnings) by.set(warning, [...(by.get(warning) ?? []), label]);
  }
  const boxes = [...by].map(([warning, labels]) => {
    const { short, long } = contents.notes[warning];
    const who = labels.flatMap((label, place) => [place ? ", " : "", named(label)]);
    return make("div", [make("strong", short[0].toUpperCase() + short.slice(1)), " (", ...who, ")", make("p", long)]);
  });
  for (const { label } of silent) boxes.push(make("div", ["Nothing of ", named(label), " in this window."]));
  at("warnings").replaceChildren(...boxes);
  at("warnings").hidden = boxes.length === 0;
}

/** Fills the list of what can be shown over time, and tells which of it is. */
function showQuantities({ groups }, distributed) {
  const shares = [...new Set(groups.flatMap(({ series }) => series.shares))].sort((one, other) => one - other);
  const trio = [0.95, 0.5, 0.05].filter((share) => shares.includes(share));
  const options = [
    ...(distributed && trio.length > 1 ? [["", trio.map(quantileName).toReversed().join(", ")]] : []),
    ["mean", "mean"], ...(distributed ? shares.map((share) => [String(share), quantileName(share)]) : []),
  ];
  at("quantity").replaceChildren(...options.map(([value, words]) => make("option", words, { value })));
  const over = chosen.over ?? (groups.length === 1 && trio.length > 1 ? "" : shares.includes(0.5) ? 0.5 : "mean");
  at("quantity").value = String(over);
  if (at("quantity").value === "" && over !== "") at("quantity").value = "mean";
  const value = at("quantity").value;
  return value === "" ? trio : [value === "mean" ? value : Number(value)];
}

function showPanes(view) {
  const most = Math.max(...view.groups.map(({ picture }) => picture.movement.panes.length));
  const moved = most > 1;
  at("panes").hidden = !moved;
  at("panes-about").textContent = moved
    ? "Each pane counts all reports that had come by then. Open circles are early, full ones on time, diamonds late; bars are 95 % intervals."
    : "This window was estimated once.";
  if (moved) drawPanes(at("panes"), view);
}

// Theme ------------------------------------------------------------------------------------------------------------------

const THEMES = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  at("theme").textContent = THEMES[theme];
  at("theme").value = theme;
}

/** Storage may be forbidden, for a file above all; then the choice lasts as long as the page. */
function remembered(theme) {
  try {
    if (theme !== undefined) localStorage.setItem("hushgram-theme", theme);
    return localStorage.getItem("hushgram-theme");
  } catch {
    return theme ?? null;
  }
}

// Beginning, and going on ------------------------------------------------------------------------------------------------

function listen() {
  const step = (by) => () => {
    const { collection, window } = resolve();
    const next = collection.windows[collection.windows.indexOf(window) + by];
    if (next) choose({ window: windowKey(next) });
  };
  at("earlier").addEventListener("click", step(-1));
  at("later").addEventListener("click", step(1));
  at("newest").addEventListener("click", () => choose({ window: null }));
  at("window").addEventListener("input", ({ target }) => choose({ window: windowKey(resolve().collection.windows[target.value]) }));
  at("arrangement").addEventListener("change", ({ target }) => choose({ apart: target.value === "apart" }));
  at("quantity").addEventListener("change", ({ target }) => choose({ over: target.value === "" ? null : target.value === "mean" ? "mean" : Number(target.value) }));
  for (const details of document.querySelectorAll("details[data-table]")) details.addEventListener("toggle", () => fillTable(details));
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
  setTheme(remembered() in THEMES ? remembered() : "auto");
  listen();
  await refresh();
  while (LIVE) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MILLISECONDS));
    if (!document.hidden) await refresh();
  }
}

begin();
