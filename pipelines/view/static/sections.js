// The words of the page around its pictures: what there is, what is chosen, what it says.
"use strict";

const at = (id) => document.getElementById(id);
const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

function notice(words) {
  at("notice").textContent = words;
  at("notice").hidden = words === "";
}

/** What does not depend on the choice. */
function showAround() {
  const { collections, refused, problems, unread } = contents;
  showTitle(collections);
  at("empty").hidden = collections.length > 0;
  at("empty").textContent = unread
    ? "Reading the data …"
    : LIVE
      ? "No snapshots here yet.\nThis page fills by itself as they are written."
      : "No snapshots here.";
  at("collection").hidden = collections.length === 0;
  at("collections").hidden = collections.length === 0;
  keepingFocus(at("collections"), () => at("collections").replaceChildren(make("ul", collections.map(collectionLink))));
  at("refused").hidden = refused.length === 0;
  at("refused").querySelector(".scroll").replaceChildren(refusedTable(refused));
  at("problems").hidden = problems.length === 0;
  at("problems").querySelector(".scroll").replaceChildren(problemsTable(problems));
}

/** Without a title of its own, the page is called after what is on it. */
function showTitle(collections) {
  const title = at("title");
  if (title.dataset.given !== undefined) return;
  const names = collections.slice(0, 3).map(({ label }) => brief(label));
  const more = collections.length > names.length ? [`${count(collections.length - names.length)} more`] : [];
  const words = [...names, ...more].join(", ") || "Results";
  title.replaceChildren(named(words));
  document.title = `${words} · hushgram`;
}

/** A list that is made anew while the keyboard is in it keeps the keyboard, at the same place. */
function keepingFocus(element, change) {
  const place = [...element.querySelectorAll("a")].indexOf(document.activeElement);
  change();
  if (place >= 0) element.querySelectorAll("a")[place]?.focus();
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
  link.href = linkTo({ ...UNCHOSEN, collection: collection.name, apart: chosen.apart });
  if (collection.name === (chosen.collection ?? contents.collections[0].name))
    link.setAttribute("aria-current", "page");
  return make("li", link);
}

function showChoice(collection, window, groups) {
  const { windows } = collection;
  const place = windows.indexOf(window);
  at("name").replaceChildren(named(collection.label));
  at("about").replaceChildren(
    `${collection.integer ? "Whole numbers" : "Numbers"} from ${bound(collection.low)} to ${bound(collection.high)}`,
    ...(collection.unit ? [" ", named(collection.unit)] : []),
    collection.scale === "log" ? ", on a logarithmic scale" : "",
    `. ${counted(windows.length, "window")}.`,
  );
  at("window").max = windows.length - 1;
  at("window").value = place;
  at("window").disabled = windows.length === 1;
  at("window").setAttribute("aria-valuetext", window.label);
  at("window-label").replaceChildren(
    `${window.label} ${collection.clocks} `,
    make("span", `(${count(place + 1)} of ${count(windows.length)})`),
  );
  at("earlier").disabled = place === 0;
  at("later").disabled = place === windows.length - 1;
  at("newest").setAttribute("aria-pressed", chosen.window === null);
  const newest = windows.at(-1).id === collection.opens_at ? "newest" : "newest whole window";
  at("newest").textContent = LIVE ? `Follow the ${newest}` : newest[0].toUpperCase() + newest.slice(1);
  at("groups").hidden = collection.groups.length < 2;
  showChips(collection, groups);
}

/** Boxes are kept while they are the right ones: the keyboard's focus stays where it was. */
function showChips(collection, groups) {
  const box = at("groups").querySelector("div");
  const wanted = collection.groups.map(({ id }) => id).join();
  if (box.dataset.groups !== wanted) {
    box.dataset.groups = wanted;
    box.replaceChildren(
      ...collection.groups.map((group, index) => {
        const input = make("input", [], { type: "checkbox", value: index });
        input.addEventListener("change", () => {
          const marked = [...box.querySelectorAll("input:checked")].map(
            ({ value }) => resolve().collection.groups[value].name,
          );
          choose({ groups: marked });
        });
        return make("label", [input, ...groupName({ ...group, index })], { className: "chip" });
      }),
    );
  }
  const marked = new Set(groups.map(({ index }) => index));
  box.querySelectorAll("input").forEach((input, index) => (input.checked = marked.has(index)));
  box.querySelectorAll(".swatch").forEach((found, index) => (found.style.borderTopColor = groupColour(index)));
}

/** What a reader should know of groups in this window, chosen or not: a name alone would look like any other. */
function showMarks({ every }) {
  at("groups")
    .querySelectorAll(".chip")
    .forEach((chip, index) => {
      const picture = every[index]?.picture;
      chip.querySelector(".mark")?.remove();
      chip.classList.toggle("thin", picture !== undefined && isThin(picture));
      if (picture?.warnings.length)
        chip.append(...(isThin(picture) ? thinMark(picture) : [mark("warning", shortly(picture.warnings))]));
    });
}

const mark = (words, title) => make("em", words, { className: "mark", title });
const thinMark = ({ status, warnings }) =>
  isThin({ status }) ? [mark(status === "no_reports" ? "no reports" : "too few reports", shortly(warnings))] : [];

/** How the reports were made and read: the newest version's files say it, the first group's for all. */
function showMethod({ groups: [{ picture }] }) {
  const { epsilon, mechanism } = picture;
  at("method").replaceChildren(
    ...(epsilon == null ? [] : [`ε = ${bound(epsilon)}, `]),
    ...(mechanism ? ["mechanism ", named(mechanism.replaceAll("_", " ")), ", "] : []),
    "estimator ",
    named(picture.estimator),
    ".",
  );
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
    ...(median
      ? [
          "Half of the values",
          ...who,
          " are at or below ",
          strong(median[1]),
          ...unit(),
          ` (95 % interval ${number(median[2])} to ${number(median[3])}). `,
        ]
      : []),
    ...(low && high ? ["Nine in ten lie between ", strong(low[1]), " and ", strong(high[1]), ". "] : []),
    "The mean",
    ...(median ? [] : who),
    " is ",
    make("b", plusMinus(mean, mean_low, mean_high)),
    ...unit(),
    `, from ${count(reports)} reports.`,
  ];
}

function showWarnings({ window, groups, all }) {
  const by = new Map();
  for (const { label, picture } of groups) {
    for (const warning of picture.warnings) by.set(warning, [...(by.get(warning) ?? []), label]);
  }
  const boxes = [...by].map(([warning, labels]) => {
    const { short, long } = contents.notes[warning];
    const heading = (words) => make("strong", words[0].toUpperCase() + words.slice(1));
    if (warning in window.cut) return make("div", [heading(window.cut[warning]), make("p", long)]);
    const who = labels.flatMap((label, place) => [place ? ", " : "", named(label)]);
    const details = groups.filter(({ picture }) => warning in picture.details);
    return make("div", [
      heading(short),
      " (",
      ...who,
      ")",
      ...details.map(({ label, picture }) => make("p", [named(label), `: ${picture.details[warning]}.`])),
      make("p", long),
    ]);
  });
  const silent = all.filter(({ picture }) => picture === undefined);
  for (const { label } of silent) boxes.push(make("div", ["Nothing of ", named(label), " in this window."]));
  at("warnings").replaceChildren(...boxes);
  at("warnings").hidden = boxes.length === 0;
}

/** Fills the list of what can be shown over time, and tells which of it is. */
function showQuantities({ all: groups }) {
  const shares = [...new Set(groups.flatMap(({ series }) => series.shares))].sort((one, other) => one - other);
  const distributed = shares.length > 0;
  const trio = [0.95, 0.5, 0.05].filter((share) => shares.includes(share));
  const options = [
    ...(distributed && trio.length > 1 ? [["", trio.map(quantileName).toReversed().join(", ")]] : []),
    ["mean", "mean"],
    ...(distributed ? shares.map((share) => [String(share), quantileName(share)]) : []),
  ];
  if (at("quantity").dataset.options !== String(options)) {
    at("quantity").dataset.options = String(options); // left alone while it is right: it may be open
    at("quantity").replaceChildren(...options.map(([value, words]) => make("option", words, { value })));
  }
  const over = chosen.over ?? (groups.length === 1 && trio.length > 1 ? "" : shares.includes(0.5) ? 0.5 : "mean");
  at("quantity").value = String(over);
  if (at("quantity").value === "" && over !== "") at("quantity").value = "mean";
  const value = at("quantity").value;
  return value === "" ? trio : [value === "mean" ? value : Number(value)];
}

/** Whether there is more than one pane to draw. */
function showPanes({ groups }) {
  const moved = groups.some(({ picture }) => picture.movement.panes.length > 1);
  at("panes").hidden = !moved;
  at("panes-about").textContent = moved
    ? "Each pane counts all reports that had come by then. Open circles are early, full ones on time, diamonds late; " +
      "bars are 95 % intervals."
    : "This window was estimated once.";
  return moved;
}
