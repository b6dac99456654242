"""A distribution as a data frame of polars or pandas, and as the picture that a notebook shows."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.intervals import NotEstimableError, Single

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
    return f"<figure>{picture}<figcaption>{_text(' · '.join(parts))}</figcaption></figure>"


def draw(distribution: Distribution, probabilities: FloatArray) -> str:
    """An SVG of the density over the domain, on its scale, with the median as a line."""
    domain = distribution.domain
    bounds = np.linspace(0, probabilities.size, min(probabilities.size, MOST_STEPS) + 1).round().astype(np.int64)
    # Some estimators allow negative probabilities; they are drawn as zero.
    bars = np.maximum(np.add.reduceat(probabilities, bounds[:-1]), 0.0) / np.diff(bounds)
    base = HEIGHT - MARGIN
    tops = base - bars / (bars.max() or 1.0) * (base - 8)
    x = bounds / probabilities.size * WIDTH
    outline = " ".join(
        f"H{left:.1f} V{top:.1f} H{right:.1f}" for left, right, top in zip(x[:-1], x[1:], tops, strict=True)
    )
    middle = float(distribution._units_up_to(np.array(distribution.median))) * WIDTH
    label = f"Density from {domain.low:.6g} to {domain.high:.6g} {domain.unit}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img" aria-label="{_text(label)}" fill="currentColor" font-size="11">'
        f'<path d="M0 {base} {outline} V{base} Z" fill-opacity="0.35"/>'
        f'<path d="M0 {base} H{WIDTH} M{middle:.1f} 4 V{base}" stroke="currentColor" fill="none"/>'
        f'<text x="0" y="{HEIGHT - 6}">{_text(f"{domain.low:.6g}")}</text>'
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 6}" text-anchor="middle">{_text(domain.unit)}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT - 6}" text-anchor="end">{_text(f"{domain.high:.6g}")}</text></svg>'
    )


def _text(text: str) -> str:
    """Text from outside, escaped for HTML, also within quotes; characters that are not printable are replaced."""
    return escape("".join(character if character.isprintable() else "\ufffd" for character in text))
