"""The picture of a plan: how the error falls with the reports, and what estimates may look like beside the truth.

Estimates are drawn as distribution functions, and the first of them as what a picture can show of its density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushgram import Collection, Estimate
from hushgram._arrays import FloatArray
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.cli.outputs import check_file, writing
from hushgram.pipelines.formatting import shown
from hushgram.pipelines.plan.text import NAMES, Plan, change, method
from hushgram.planning import ERRORS, MOST_REPORTS, Alternative, Outlook, Runs, Shape, outlook
from hushgram.simulation import draw_tally
from hushgram.transforms.filesystem import atomically

ENDINGS = (".png", ".svg")
EXAMPLES = 6
DENSITY_STEPS = 256
"""About as many steps a density is drawn with."""
FEWER_RUNS = Runs(errors=4, intervals=2)
"""For points beyond the tables: a curve is read by its course."""
PRESENT, OTHERS = "#1f4e79", ("#c55a11", "#548235", "#7f6000", "#7030a0")
LESS_AND_MORE = {"less ε": "#9dc3e6", "more ε": "#2e75b6"}


@dataclass(frozen=True, eq=False)
class Example:
    """Distribution functions at the edges of the grid, true and of simulated estimates, and the first one's band.

    Of the first also the readable bins, as their edges and the bounds of their densities over the average density.
    """

    shape: str
    reports: int
    edges: FloatArray
    truth: FloatArray
    estimates: Sequence[FloatArray]
    band: tuple[FloatArray, FloatArray, FloatArray]
    bins: tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Sketch:
    """What is drawn beside the plan's own figures."""

    figure: str
    curves: Sequence[tuple[Alternative, Sequence[Outlook]]]
    example: Example | None


def check(path: str) -> None:
    """Told now if it is missing, not when all has been simulated."""
    if not path.endswith(ENDINGS):
        raise UsageError(f"--plot: got {path!r}, allowed: a file that ends in {' or '.join(ENDINGS)}")
    if not Path(path).parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {Path(path).parent}")
    check_file("--plot", path)
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise UsageError("--plot: matplotlib is not installed; pip install 'hushgram[plot]'") from None


def sketch(begin: Callable[..., Callable[[], Any]], plan: Plan, seed: int) -> Sketch:
    """The plan's figures with fewer and with more reports, for the collection and the most telling of the others."""
    figure = plan.target.figure if plan.target else plan.advice.figure
    sizes = [level.reports for level, _ in plan.levels]
    ends = [max(sizes[0] // (3 if len(sizes) > 1 else 10), 10), min(sizes[-1] * 10, MOST_REPORTS)]
    chosen = _most_telling(plan, figure)
    points = [
        [begin(outlook, other.collection, plan.shapes, end, [figure], FEWER_RUNS, seed) for end in ends]
        for other, _ in chosen
    ]
    shows = plan.advice.figure == "w1"
    drawn = begin(example, plan.collection, plan.shapes[0], plan.chosen.reports, seed) if shows else None
    curves = []
    for (other, seen), later in zip(chosen, points, strict=True):
        first, last = (result() for result in later)
        curves.append((other, [first, *([o for _, o in plan.levels] if other.kind == "now" else [seen]), last]))
    return Sketch(figure, curves, drawn() if drawn else None)


def _most_telling(plan: Plan, figure: str) -> list[tuple[Alternative, Outlook]]:
    """The collection, its neighbours in ε, and the best of each other kind."""
    near = [item for item in plan.tried if item[0].kind in ("now", "epsilon")]
    best: dict[str, tuple[Alternative, Outlook]] = {}
    for item in sorted(plan.tried, key=lambda item: item[1].mean(figure).mean):
        best.setdefault(item[0].kind, item)
    return near + [item for kind, item in best.items() if kind not in ("now", "epsilon")]


def example(collection: Collection, shape: Shape, reports: int, seed: int) -> Example:
    """Estimates as they might come, with generators that the tables have not used."""
    tallies = [
        draw_tally(collection, shape.distribution, reports, shape.generator(seed + 1, run)) for run in range(EXAMPLES)
    ]
    first, *others = (*collection.estimate_many(tallies[:1]), *collection.estimate_many(tallies[1:]))
    truth = np.concatenate([[0.0], np.cumsum(shape.distribution)])
    curves = [
        np.concatenate([[0.0], np.cumsum(e.probabilities)]) for e in (first, *others) if e.probabilities is not None
    ]
    units = np.linspace(0, 1, truth.size)
    aligned = [np.interp(units, np.linspace(0, 1, curve.size), curve) for curve in curves]
    edges = collection.domain.from_unit(units)
    return Example(shape.name, reports, edges, truth, aligned, first.band(), _over_average(first))


def _over_average(estimate: Estimate) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Readable bins with the bounds of their density over that of a uniform distribution, on any scale."""
    edges, low, high = estimate.readable_bins()
    places = np.interp(edges, estimate.edges, np.linspace(0, 1, estimate.edges.size))
    widths = np.diff(edges) / np.diff(places)
    return edges, low * widths, high * widths


def draw(plan: Plan, drawn: Sketch, path: str) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = 1 if drawn.example is None else 3
    figure = Figure(figsize=(6.8 * panels, 5.8), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    _draw_errors(axes[0], plan, drawn)
    if drawn.example is not None:
        _draw_example(axes[1], plan, drawn.example)
        _draw_density(axes[2], plan, drawn.example)
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{shown(plan.request.name)}: {method(plan.collection)}, ε = {plan.request.epsilon:g}")
    # Fixed, so that the same plan is the same file.
    about = {"Date": None} if path.endswith(".svg") else {"Software": None}
    with rc_context({"svg.hashsalt": "hushgram"}), writing("--plot", path), atomically(path) as file:
        figure.savefig(file, format=Path(path).suffix[1:], dpi=110, metadata=about)


def _draw_errors(panel: Any, plan: Plan, drawn: Sketch) -> None:
    name, unit = NAMES.get(drawn.figure, drawn.figure), shown(plan.request.unit)
    others = iter(OTHERS)
    present = plan.tried[0][0]
    for other, outlooks in drawn.curves:
        difference = change(other, present)
        reports = [seen.reports for seen in outlooks]
        errors = [seen.mean(drawn.figure).mean for seen in outlooks]
        if other is present:
            low, high = (
                [end(s.mean for s in seen.figures[drawn.figure].values()) for seen in outlooks] for end in (min, max)
            )
            if len(plan.shapes) > 1:
                panel.fill_between(reports, low, high, color=PRESENT, alpha=0.12, lw=0, label="its best to worst shape")
            panel.plot(reports, errors, color=PRESENT, lw=2.2, label="as planned", zorder=3)
        elif other.kind == "epsilon":
            label = f"ε = {other.collection.epsilon:g}"
            panel.plot(reports, errors, color=LESS_AND_MORE[difference], lw=1.6, label=label)
        else:
            panel.plot(reports, errors, color=next(others), lw=1.4, ls="--", label=method(other.collection))
    panel.set(xscale="log", yscale="log", xlabel="reports in one snapshot")
    panel.set_ylabel(
        f"expected {name}, share of the domain"
        if drawn.figure in ERRORS
        else f"95 % interval of the {name}: ± {unit}".strip()
    )
    white = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 1}
    for place, seen in {level.reports: seen for level, seen in plan.levels}.items():
        error = seen.mean(drawn.figure).mean
        names = "\n".join(level.name for level, _ in plan.levels if level.reports == place)
        beside = {"xytext": (7, 6), "textcoords": "offset points", "fontsize": 8, "bbox": white}
        panel.plot(place, error, "o", color=PRESENT, ms=6, zorder=4)
        panel.annotate(names, (place, error), zorder=5, **beside)
    if plan.target:
        panel.axhline(plan.target.most, color="black", lw=0.9, ls=":", label="target")
    panel.grid(which="major", alpha=0.25)
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_minor_formatter("")
    panel.xaxis.set_major_formatter(lambda reports, _: f"{reports:,.0f}")
    panel.yaxis.set_major_formatter(lambda error, _: f"{error:g}")
    panel.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    panel.set_title("What more reports bring", fontsize=11)


def _draw_example(panel: Any, plan: Plan, seen: Example) -> None:
    points, low, high = seen.band
    panel.fill_between(points, low, high, color=PRESENT, alpha=0.15, lw=0, label="95 % band of the first")
    for number, curve in enumerate(seen.estimates):
        label = f"{len(seen.estimates)} simulated estimates" if number == 0 else None
        panel.plot(
            seen.edges,
            curve,
            color=PRESENT,
            lw=1.5 if number == 0 else 0.7,
            alpha=1 if number == 0 else 0.6,
            label=label,
        )
    panel.plot(seen.edges, seen.truth, color="black", lw=1.6, label=f"truth: {shown(seen.shape)}")
    panel.set(ylabel="share of values at or below", ylim=(0, 1))
    _finish(panel, plan, seen, f"What may be seen of {plan.chosen.name} ({seen.reports:,} reports)")


def _draw_density(panel: Any, plan: Plan, seen: Example) -> None:
    edges, low, high = seen.bins
    bounds = [np.append(bound, bound[-1]) for bound in (low, high)]
    label = "what its reports support (95 %, all bins at once)"
    panel.fill_between(edges, *bounds, step="post", color=PRESENT, alpha=0.25, lw=0, label=label)
    for curve, style in (
        (seen.estimates[0], {"color": PRESENT, "lw": 0.7, "label": "the first estimate's own density"}),
        (seen.truth, {"color": "black", "lw": 1.6, "label": f"truth: {shown(seen.shape)}"}),
    ):
        panel.stairs(_density(curve), seen.edges[:: (curve.size - 1) // DENSITY_STEPS or 1], baseline=None, **style)
    panel.set(ylabel="density, average = 1", ylim=(0, 1.15 * float(high.max())))
    _finish(panel, plan, seen, f"What a picture can show of it: {low.size} bins")


def _density(curve: FloatArray) -> FloatArray:
    """The density over that of a uniform distribution, on average between some points of a distribution function."""
    some = curve[:: (curve.size - 1) // DENSITY_STEPS or 1]
    return np.diff(some) * (some.size - 1)


def _finish(panel: Any, plan: Plan, seen: Example, title: str) -> None:
    """What panels over the domain have in common."""
    if plan.request.scale == "log":
        panel.set_xscale("log")
    panel.set_xlabel(shown(plan.request.unit) or "value")
    panel.set_xlim(float(seen.edges[0]), float(seen.edges[-1]))
    panel.grid(alpha=0.25)
    panel.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2)
    panel.set_title(title, fontsize=11)
