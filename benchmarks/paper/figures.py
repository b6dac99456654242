"""The paper's figures, with its axes, and ours beside them: functions from the table to a drawing.

A method has the same colour and marker everywhere; colours are those of Okabe and Ito and of Tol, which
people who see few colours can distinguish. Bars are standard errors.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from PIL import Image

from benchmarks.paper.data import DATA, population, truth
from benchmarks.paper.experiments import BANDWIDTH_EPSILONS, BUCKETS, EPSILONS
from benchmarks.paper.methods import ALL, BESIDE, CONTENDERS, COVERED, PAPER, RANGES, SHAPES
from benchmarks.paper.rivals.measure import RIVALS
from hushgram.mechanisms import best_bandwidth

STYLES = {
    "SW+EMS": ("#0072B2", "o"),
    "SW+EM": ("#56B4E9", "s"),
    "HH-ADMM": ("#D55E00", "^"),
    "CFO-16": ("#009E73", "v"),
    "CFO-32": ("#E69F00", "D"),
    "CFO-64": ("#CC79A7", "P"),
    "HH": ("#000000", "<"),
    "HaarHRR": ("#999999", ">"),
    "SR": ("#882255", "X"),
    "PM": ("#999933", "d"),
    "square": ("#0072B2", "o"),
    "ratio 0.8": ("#117733", "s"),
    "ratio 0.6": ("#44AA99", "D"),
    "ratio 0.4": ("#DDAA33", "v"),
    "ratio 0.2": ("#CC6677", "^"),
    "triangle": ("#882255", "X"),
    "discrete SW+EMS": ("#332288", "s"),
    "adaptive SW+EMS": ("#0072B2", "o"),
    "weighted tree": ("#D55E00", "^"),
    "coarse-first tree": ("#AA4499", "v"),
    "SW+log-spline": ("#009E73", "D"),
    "four widths+EMS": ("#E69F00", "P"),
    "four widths+log-spline": ("#882255", "X"),
    "PriPL-Tree": ("#CC79A7", "<"),
    "factorization": ("#000000", ">"),
}
OTHERS = (("#0072B2", "o"), ("#E69F00", "s"), ("#D55E00", "^"), ("#009E73", "v"))
"""For lines that are not methods: data sets, numbers of buckets, kinds of intervals."""

LABELS = {
    "w1": "Wasserstein distance",
    "ks": "KS distance",
    "range_0.1": "MAE, ranges of 0.1",
    "range_0.4": "MAE, ranges of 0.4",
    "mean": "MAE of the mean",
    "variance": "MAE of the variance",
    "quantiles": "MAE of quantiles",
}

STYLE: Any = {  # the type that matplotlib asks for lists every key there is
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.6,
    "legend.frameon": False,
}


@dataclass(frozen=True)
class Drawing:
    """A figure of the page: what it shows, in the paper (by what it compares) or beside it."""

    name: str
    caption: str
    draw: Callable[[pl.DataFrame], Figure]


def save(drawing: Drawing, table: pl.DataFrame, folder: Path) -> Path:
    """A PNG of 64 colours: a quarter of the size, without a visible difference."""
    path, buffer = folder / f"{drawing.name}.png", io.BytesIO()
    with mpl.rc_context(STYLE):
        drawing.draw(table).savefig(buffer, format="png", dpi=110)
    folder.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


def _panels(rows: int, columns: int, height: float = 1.9, width: float = 2.75) -> tuple[Figure, list[list[Axes]]]:
    figure = Figure(figsize=(width * columns, height * rows + 0.35), facecolor="white")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def _line(axes: Axes, rows: pl.DataFrame, x: str, style: tuple[str, str], label: str, dashed: bool = False) -> None:
    rows = rows.sort(x)
    colour, marker = style
    axes.errorbar(
        rows[x].to_numpy(),
        rows["mean"].to_numpy(),
        rows["error"].fill_nan(0.0).to_numpy(),
        color=colour,
        marker=marker,
        label=label,
        elinewidth=0.7,
        linestyle="--" if dashed else "-",
    )


def _log(axes: Axes) -> None:
    axes.set_yscale("log", nonpositive="clip")
    low, high = axes.get_ylim()
    # Where there are few whole decades, ticks between them are named, too.
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 60 else (1.0,)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.5g}" if value >= 1e-4 else f"{value:.0e}")


def _legend(figure: Figure, panels: Iterable[Axes], columns: int = 10) -> None:
    """One for all panels, above them, so that it covers nothing."""
    handles_by_label: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        handles_by_label.update(
            {label: handle for handle, label in zip(handles, labels, strict=True) if label not in handles_by_label}
        )
    figure.legend(
        list(handles_by_label.values()),
        list(handles_by_label),
        loc="outside upper center",
        ncols=min(len(handles_by_label), columns),
    )


def _data(table: pl.DataFrame) -> Figure:
    figure, [row] = _panels(1, len(DATA))
    for axes, (name, data) in zip(row, DATA.items(), strict=True):
        shares = truth(population(name), data.buckets)
        axes.fill_between((np.arange(shares.size) + 0.5) / shares.size, shares, color="#0072B2", linewidth=0)
        axes.set(title=f"{data.title}, {data.buckets} buckets", ylim=(0, None), xlim=(0, 1), xlabel="value")
    row[0].set_ylabel("share of devices")
    return figure


def _by_epsilon(*metrics: str) -> Callable[[pl.DataFrame], Figure]:
    """Metrics × data sets over ε, as the paper draws them."""

    def draw(table: pl.DataFrame) -> Figure:
        table = table.filter(pl.col("figure") == "methods", pl.col("epsilon").is_in(EPSILONS))
        figure, grid = _panels(len(metrics), len(DATA))
        for row, metric in zip(grid, metrics, strict=True):
            for axes, (name, data) in zip(row, DATA.items(), strict=True):
                for method in PAPER:
                    if metric in method.metrics:
                        rows = table.filter(method=method.name, data=name, metric=metric)
                        _line(axes, rows, "epsilon", STYLES[method.name], method.name, method.name in ("SR", "PM"))
                axes.set(title=data.title if row is grid[0] else None, xticks=EPSILONS)
                axes.set_xlabel("ε" if row is grid[-1] else "")
                _log(axes)
            row[0].set_ylabel(LABELS[metric])
        _legend(figure, (axes for row in grid for axes in row))
        return figure

    return draw


def _shapes(table: pl.DataFrame) -> Figure:
    table = table.filter(figure="shapes", metric="w1")
    figure, [row] = _panels(1, len(DATA), 2.1)
    for axes, (name, data) in zip(row, DATA.items(), strict=True):
        for method in reversed(SHAPES):
            rows = table.filter(method=method.name, data=name)
            _line(axes, rows, "bandwidth", STYLES[method.name], method.name)
        axes.set(title=f"{data.title}, ε = 1", xlabel="b")
        _log(axes)
    row[0].set_ylabel(LABELS["w1"])
    _legend(figure, row)
    return figure


def _bandwidths(table: pl.DataFrame) -> Figure:
    table = table.filter(figure="bandwidths", metric="w1")
    figure, [row] = _panels(1, len(BANDWIDTH_EPSILONS), 2.1)
    for axes, epsilon in zip(row, BANDWIDTH_EPSILONS, strict=True):
        for (name, data), style in zip(DATA.items(), OTHERS, strict=True):
            _line(axes, table.filter(data=name, epsilon=epsilon), "bandwidth", style, data.title)
        bandwidth = best_bandwidth(epsilon)
        axes.axvline(bandwidth, color="black", linestyle=":")
        axes.set(title=f"ε = {epsilon:g}, chosen b = {bandwidth:.3f}", xlabel="b")
        _log(axes)
    row[0].set_ylabel(LABELS["w1"])
    _legend(figure, row)
    return figure


def _buckets(table: pl.DataFrame) -> Figure:
    table = table.filter(figure="buckets", metric="w1")
    figure, [row] = _panels(1, len(DATA), 2.1)
    for axes, (name, data) in zip(row, DATA.items(), strict=True):
        for count, style in zip(BUCKETS, OTHERS, strict=True):
            _line(axes, table.filter(data=name, buckets=count), "epsilon", style, f"{count} buckets")
        axes.set(title=data.title, xlabel="ε", xticks=EPSILONS)
        _log(axes)
    row[0].set_ylabel(LABELS["w1"])
    _legend(figure, row)
    return figure


def _ratios(beside: Mapping[str, str], *metrics: str) -> Callable[[pl.DataFrame], Figure]:
    """Metrics × data sets over ε: the error of each method as a share of that of the one it stands beside."""

    def draw(table: pl.DataFrame) -> Figure:
        table = table.filter(pl.col("figure").is_in(["methods", "rivals"]))
        figure, grid = _panels(len(metrics), len(DATA))
        for row, metric in zip(grid, metrics, strict=True):
            for axes, (name, data) in zip(row, DATA.items(), strict=True):
                panel = table.filter(data=name, metric=metric)
                for one, other in beside.items():
                    _line(axes, _ratio(panel, one, other), "epsilon", STYLES[one], f"{one} over {other}")
                axes.axhline(1, color="black", linewidth=0.8)
                axes.set(title=data.title if row is grid[0] else None, xlabel="ε" if row is grid[-1] else "")
            row[0].set_ylabel(f"{metric.upper().replace('_', ' ')}, ratio")
        _legend(figure, grid[0], 4)
        return figure

    return draw


def _ratio(panel: pl.DataFrame, one: str, other: str) -> pl.DataFrame:
    base = panel.filter(method=other).select("epsilon", base="mean", base_error="error")
    noise = ((pl.col("error") / pl.col("base")) ** 2 + (pl.col("base_error") / pl.col("base")) ** 2).sqrt()
    rows = panel.filter(method=one).join(base, on="epsilon")
    return rows.with_columns(mean=pl.col("mean") / pl.col("base"), error=noise)


def _coverage(table: pl.DataFrame) -> Figure:
    figure, [row] = _panels(1, len(DATA), 2.1)
    kinds = [(metric, style) for metric, style in zip(COVERED, (*OTHERS, ("#CC79A7", "P")), strict=True)]
    for axes, (name, data) in zip(row, DATA.items(), strict=True):
        for metric, style in kinds:
            if metric != "covers_worst_cdf":
                rows = table.filter(data=name, metric=metric).with_columns(error=pl.lit(0.0))
                _line(axes, rows, "epsilon", style, metric.removeprefix("covers_"))
        axes.axhline(0.95, color="black", linestyle=":")
        axes.set(title=data.title, xlabel="ε", ylim=(-0.03, 1.05))
    row[0].set_ylabel("share of runs held")
    _legend(figure, row)
    return figure


def _product(table: pl.DataFrame) -> Figure:
    figure, [[axes]] = _panels(1, 1, 2.4, 6.0)
    for method in ("SW+EMS", "HH-ADMM"):
        rows = table.filter(method=method, data="beta", metric="w1")
        arrays = rows.filter(pl.col("figure") == "methods", pl.col("epsilon").is_in(EPSILONS))
        _line(axes, arrays, "epsilon", (STYLES[method][0], ""), f"{method}, arrays")
        piped = rows.filter(figure="product")
        axes.errorbar(
            piped["epsilon"].to_numpy() + 0.02,
            piped["mean"].to_numpy(),
            piped["error"].fill_nan(0.0).to_numpy(),
            color=STYLES[method][0],
            marker=STYLES[method][1],
            linestyle="none",
            elinewidth=0.7,
            label=f"{method}, pipeline",
        )
    axes.set(title="Beta(5, 2)", xlabel="ε", ylabel=LABELS["w1"], xticks=EPSILONS)
    _log(axes)
    _legend(figure, [axes])
    return figure


FIGURES: Sequence[Drawing] = (
    Drawing("data", "The populations: the share of devices in each bucket.", _data),
    Drawing("distances", "Wasserstein distance (above) and KS distance (below) over ε.", _by_epsilon("w1", "ks")),
    Drawing("ranges", "Range queries that cover 0.1 (above) and 0.4 (below) of the domain.", _by_epsilon(*ALL[2:4])),
    Drawing("statistics", "Mean (above), variance and quantiles (below) over ε.", _by_epsilon(*ALL[4:])),
    Drawing(
        "shapes", "Other shapes of waves over b, at ε = 1; a ratio is a trapezoid's upper side over its lower.", _shapes
    ),
    Drawing("bandwidths", "SW+EMS over b; the dotted line is the b that the paper chooses.", _bandwidths),
    Drawing("buckets", "SW+EMS with other numbers of buckets, for reports and estimate alike.", _buckets),
    Drawing(
        "ours",
        "Beyond the paper: errors over those of the paper's method, below 1 is better.",
        _ratios(BESIDE, "w1", "ks"),
    ),
    Drawing(
        "rivals",
        "Rivals beyond the paper, and ours: errors over those of SW+EMS, below 1 is better.",
        _ratios(dict.fromkeys((*RIVALS, *CONTENDERS), "SW+EMS"), "w1", "ks", *RANGES),
    ),
    Drawing("coverage", "Beyond the paper: how often 95 % intervals of SW+EMS hold the truth.", _coverage),
    Drawing("product", "One panel through `hushgram simulate` and `hushgram aggregate`.", _product),
)
