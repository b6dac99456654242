// Tables as CSV, with every digit that the files have, and pictures as PNG.
"use strict";

/** By the name of a table, the plots beside it. */
const PLOTS = {
  reports: "#reports",
  density: "#density .plot",
  cdf: "#cdf .plot",
  mean: "#mean",
  time: "#time",
  panes: "#panes",
  differences: "#compared-curves .plot",
};

/** A cell in full: the exact number is in its title where it is rounded. */
function exactly(cell) {
  const titled = cell.querySelector("[title]");
  return titled ? titled.title : cell.textContent;
}

/** Quoted where it must be. A name that a spreadsheet would take for a formula stays a name. */
function csvField(text) {
  const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csvOf(element) {
  const tables = element.matches("table") ? [element] : [...element.querySelectorAll("table")];
  return tables
    .map(({ rows }) => [...rows].map(({ cells }) => `${[...cells].map(exactly).map(csvField).join(",")}\r\n`).join(""))
    .join("\r\n");
}

const fileName = (...parts) =>
  parts
    .join(" ")
    .replace(/[^\p{L}\p{N}.-]+/gu, "_")
    .slice(0, 120);

function download(blob, name) {
  const link = make("a", [], { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** One image of all plots of a kind, one below the other, each with its words above. */
async function imageOf(plots) {
  const scale = 2;
  const caption = 26;
  const images = await Promise.all(
    plots.map(async (plot) => {
      const { width, height } = plot.layout;
      const image = new Image();
      image.src = await Plotly.toImage(plot, { format: "png", width, height, scale });
      await image.decode();
      return { image, words: plot.getAttribute("aria-label") };
    }),
  );
  const canvas = make("canvas", [], {
    width: greatest(images.map(({ image }) => image.width)),
    height: images.reduce((sum, { image }) => sum + image.height + scale * caption, 0),
  });
  const paper = canvas.getContext("2d");
  paper.fillStyle = colour("page");
  paper.fillRect(0, 0, canvas.width, canvas.height);
  paper.font = `${13 * scale}px ${getComputedStyle(document.documentElement).fontFamily}`;
  let top = 0;
  for (const { image, words } of images) {
    paper.fillStyle = colour("ink");
    paper.fillText(words, 10 * scale, top + 18 * scale, canvas.width - 20 * scale);
    paper.drawImage(image, 0, top + caption * scale);
    top += image.height + caption * scale;
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

/** Two buttons beside each table. */
function addExports() {
  for (const details of document.querySelectorAll("details[data-table]")) {
    const name = details.dataset.table;
    const what = details.dataset.words ?? name;
    const file = (kind) => {
      const { collection, window } = resolve();
      return `${fileName(collection.label, window.label, what)}.${kind}`;
    };
    const button = (kind, act) => {
      const made = make("button", kind, { type: "button", title: `Download ${what} as ${kind}` });
      made.addEventListener("click", act);
      return made;
    };
    const csv = button("CSV", () =>
      download(new Blob(["\ufeff", csvOf(tableOf(name))], { type: "text/csv;charset=utf-8" }), file("csv")),
    );
    const png = button("PNG", async () => {
      const plots = [...document.querySelectorAll(PLOTS[name])].filter((plot) => plot.layout && plot.clientWidth > 0);
      download(await imageOf(plots), file("png"));
    });
    png.classList.add("png");
    details.before(make("span", PLOTS[name] ? [csv, png] : [csv], { className: "exports" }));
  }
}
