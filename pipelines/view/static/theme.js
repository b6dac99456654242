// Light or dark: as the system has it, or as the person wants it.
"use strict";

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
