// "How far can I trust this?", in plain sentences.
"use strict";

const ASSUMPTIONS = new Map([
  [
    "smooth",
    "The intervals assume that the distribution is smooth. Where many values are exactly the same number, or the " +
      "density jumps, they may be too narrow.",
  ],
  ["any_shape", "The intervals assume nothing about the shape of the distribution. They are wider for it."],
  ["unsmoothed", "The counts are not smoothed, so the intervals assume nothing about the shape of the distribution."],
]);

/** Pairs of a heading and a sentence. */
function trustIn(picture, collection) {
  const { reports, epsilon, mechanism, intervals, lying_bound, central_epsilon, fit, estimator } = picture;
  const times = Math.exp(epsilon);
  return [
    [
      "Reports",
      `${counted(reports, "report")}${picture.status === "too_few" ? ", too few to trust" : ""}. ` +
        "Half of the error takes four times as many.",
    ],
    [
      "Intervals",
      collection.distributed
        ? (ASSUMPTIONS.get(intervals) ??
          "The file does not say what its intervals assume: an earlier version made it, which took every " +
            "distribution for smooth.")
        : "The interval of the mean assumes nothing about the shape of the distribution.",
    ],
    [
      "Lying devices",
      !collection.distributed
        ? null
        : lying_bound == null
          ? "It is not known how far devices that lie could move this estimate."
          : `If 1 % of the devices lied, each point of the distribution function could be off by up to ` +
            `${number(100 * lying_bound, 2)} percentage points, in addition to the interval, and nobody could tell.`,
    ],
    [
      "Fit",
      fit == null
        ? "There is no test whether the reports fit this mechanism."
        : picture.warnings.includes("misfit")
          ? `The reports do not fit the mechanism (p = ${number(fit, 2)}): find out why before relying on this.`
          : `The reports look as the mechanism makes them (p = ${number(fit, 2)}). Devices that lie within the rules ` +
            "cannot be found out this way.",
    ],
    [
      "Privacy of a report",
      epsilon == null
        ? "The file does not say with which ε devices report."
        : `ε = ${bound(epsilon)}: no value of a device makes any report of it more than ${number(times, 2)} times ` +
          "as likely as another value does. This holds against everyone, the server included.",
    ],
    [
      "Privacy of this result",
      central_epsilon == null
        ? "For readers of the tally alone no smaller ε is claimed."
        : `ε = ${number(central_epsilon, 2)} (δ = 10⁻⁸) towards those who see this tally and no single report, ` +
          "such as readers of this page. Whoever receives the reports themselves cannot rely on it: for them it is the ε " +
          "above.",
    ],
    [
      "Method",
      `${mechanism ? `Mechanism ${mechanism.replaceAll("_", " ")}, e` : "E"}stimator ${estimator}, ` +
        `${counted(picture.iterations, "step")}, ${picture.converged ? "settled" : "not settled"}.`,
    ],
  ].filter(([, words]) => words !== null);
}

/** The first group in sentences; beside others, what differs between them in a table. */
function showTrust({ collection, groups }) {
  const [{ picture }] = groups;
  const told = trustIn(picture, { ...collection, distributed: picture.probabilities !== null });
  const list = make(
    "dl",
    told.flatMap(([what, words]) => [make("dt", what), make("dd", named(words))]),
  );
  const heads = ["reports", "fit, p", "ε of the tally", "if 1 % lie, ±"];
  const known = (value, words) => (isKnown(value) ? words(value) : "–");
  const rows = groups.map((group) => {
    const { reports, fit, central_epsilon, lying_bound } = group.picture;
    return [
      [...groupName(group), ...thinMark(group.picture)],
      count(reports),
      known(fit, (value) => number(value, 2)),
      known(central_epsilon, (value) => number(value, 2)),
      known(lying_bound, (value) => percent(value, 2)),
    ];
  });
  const beside = make("div", table([text("group"), ...heads.map(figure)], rows), { className: "scroll" });
  at("trust-of").replaceChildren(...(groups.length > 1 ? [make("h4", groupName(groups[0])), list, beside] : [list]));
}
