"""Known values against a domain: what devices would clip, and what crowds at an end of it, in words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hushgram import Collection
from hushgram._arrays import FloatArray
from hushgram.heavy_ends import STRIPS, find_heavy_ends_of_values
from hushgram.pipelines.formatting import share, shown

LEAST_SHARE = 0.001
"""Of clipped values: fewer are not worth a line."""


def outside_words(collection: Collection, values: FloatArray) -> Iterator[str]:
    """A line for each end of the domain that values lie beyond, or that they crowd at as if in another unit."""
    domain, unit = collection.domain, f" {shown(collection.unit)}" if collection.unit else ""
    heavy = find_heavy_ends_of_values(domain.to_unit(values.astype(np.float64)))
    strip = 1 / STRIPS
    ends = (
        (values < domain.low, "below", domain.low, "at most", domain.from_unit(strip)),
        (values > domain.high, "above", domain.high, "at least", domain.from_unit(1 - strip)),
    )
    for (beyond, side, end, bound, inner), crowd in zip(ends, heavy, strict=True):
        clipped = float(beyond.mean())
        if clipped >= LEAST_SHARE:
            asked = ": is the unit right?" if crowd is not None else ""
            yield f"{share(clipped)} of the values lie {side} {end:,.10g}{unit}, and count as {end:,.10g}{asked}"
        elif crowd is not None:
            near = float((values <= inner).mean() if side == "below" else (values >= inner).mean())
            where = f"of a domain from {domain.low:,.10g} to {domain.high:,.10g}"
            yield f"{share(near)} of the values are {bound} {float(inner):,.4g}{unit}, {where}: is the unit right?"
