"""A distribution as a data frame of polars or pandas, and as the picture that a notebook shows."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.intervals import ASSUMPTIONS, DENSITY_BINS, NotEstimableError, Single

if TYPE_CHECKING:
    from hushgram.distribution import Distribution

FRAME_LIBRARIES = ("polars", "pandas")
WIDTH, HEIGHT, MARGIN = 480, 140, 24
MOST_STEPS = 240
"""The most bars of a picture; with more buckets, neighbours are drawn as one bar."""


def make_frame(columns: Mapping[str, FloatArray]) -> Any:
    """A data frame of the first library of `FRAME_LIBRARIES` that is installed."""
    for name in FRAME_LIBRARIES:
        try:
            library = import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        return library.DataFrame(dict(columns))
    raise ModuleNotFoundError(
        "to_frame needs polars or pandas, and neither is installed: pip install polars, or pip install pandas"
    )


def to_html(distribution: Distribution) -> str:
    """An HTML fragment: an inline picture of the density, and the main numbers below it."""
    unit = distribution.domain.unit
    parts = [f"{distribution.reports:,} reports", *distribution._notes()]
    numbers: dict[Single, float] = {"mean": distribution.mean}
    picture = ""
    if distribution.probabilities is not None:
        numbers["median"] = distribution.median
        picture = draw(distribution, distribution.probabilities)
    for name, value in numbers.items():
        try:
            low, high = distribution.interval(name)
            parts.append(f"{name} {value:.6g} {unit} (95 %: {low:.6g} to {high:.6g})")
        except NotEstimableError:
            parts.append(f"{name} {value:.6g} {unit}")
    if distribution.probabilities is not None and distribution.intervals is not None:
        parts.append(f"intervals {ASSUMPTIONS.get(distribution.intervals, distribution.intervals)}")
    return f"<figure>{picture}<figcaption>{_text(' · '.join(parts))}</figcaption></figure>"


def draw(distribution: Distribution, probabilities: FloatArray) -> str:
    """An SVG of the density over the domain, on its scale, as far as the reports support it.

    Where bins are as fine as can be, the curve itself is drawn, and the bounds as a band. Elsewhere it is the average
    of each bin, with a whisker from bound to bound. The median is a line. Few reports are drawn faintly.
    """
    domain, size, bounds = distribution.domain, probabilities.size, distribution._bin_bounds
    lengths = np.diff(bounds)
    fine = lengths <= -(-size // DENSITY_BINS)
    low, high = _bin_bounds(distribution, lengths)
    averages = np.add.reduceat(probabilities, bounds[:-1]) / lengths
    curve = np.where(np.repeat(fine, lengths), probabilities, np.repeat(averages, lengths))
    steps = np.union1d(np.linspace(0, size, min(size, MOST_STEPS) + 1).round().astype(np.int64), bounds)
    # Some estimators allow negative probabilities; they are drawn as zero.
    bars = np.maximum(np.add.reduceat(curve, steps[:-1]), 0.0) / np.diff(steps)
    base = HEIGHT - MARGIN
    scale = (base - 8) / (max(float(bars.max()), float(high.max())) or 1.0)
    x, lower, upper = bounds / size * WIDTH, base - low * scale, base - high * scale
    level = base - np.maximum(averages, 0.0) * scale
    band = f"{_steps(x, np.where(fine, upper, level))} {_steps(x[::-1], np.where(fine, lower, level)[::-1])}"
    whiskers = " ".join(
        f"M{middle:.1f} {start:.1f} V{end:.1f}"
        for middle, start, end in zip(((x[:-1] + x[1:]) / 2)[~fine], lower[~fine], upper[~fine], strict=True)
        if end < start
    )
    median = float(distribution._units_up_to(np.array(distribution.median))) * WIDTH
    label = f"Density from {domain.low:.6g} to {domain.high:.6g} {domain.unit}"
    faint = "" if distribution.status == "ok" else ' opacity="0.45"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{_text(label)}" fill="currentColor" font-size="11"{faint}>'
        f'<path d="M0 {base} {_steps(steps / size * WIDTH, base - bars * scale)} V{base} Z" fill-opacity="0.35"/>'
        f'<path d="M0 {base} {band} Z" fill-opacity="0.2"/>'
        f'<path d="{whiskers}" stroke="currentColor" stroke-opacity="0.6" fill="none"/>'
        f'<path d="M0 {base} H{WIDTH} M{median:.1f} 4 V{base}" stroke="currentColor" fill="none"/>'
        f'<text x="0" y="{HEIGHT - 6}">{_text(f"{domain.low:.6g}")}</text>'
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 6}" text-anchor="middle">{_text(domain.unit)}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT - 6}" text-anchor="end">{_text(f"{domain.high:.6g}")}</text></svg>'
    )


def _bin_bounds(distribution: Distribution, lengths: IntArray) -> tuple[FloatArray, FloatArray]:
    """Bounds of the share of each bucket, on average over its readable bin; where none are known, they are zero."""
    try:
        edges, low, high = distribution.readable_bins()
    except NotEstimableError:
        return np.zeros(lengths.size), np.zeros(lengths.size)
    buckets = np.diff(edges) / lengths
    return low * buckets, high * buckets


def _steps(x: FloatArray, heights: FloatArray) -> str:
    """Level lines from each place to the next."""
    return " ".join(
        f"H{left:.1f} V{height:.1f} H{right:.1f}" for left, right, height in zip(x[:-1], x[1:], heights, strict=True)
    )


def _text(text: str) -> str:
    """Text from outside, escaped for HTML, also within quotes; characters that are not printable are replaced."""
    return escape("".join(character if character.isprintable() else "\ufffd" for character in text))
