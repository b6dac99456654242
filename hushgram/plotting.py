"""An axis as plotting libraries ask for it, by the PlottableHistogram protocol of UHI; none of them is needed here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray


@dataclass(frozen=True)
class Traits:
    """The bins neither wrap around nor are categories."""

    circular: bool = False
    discrete: bool = False


@dataclass(frozen=True, eq=False)
class Axis:
    """Bins next to one another, each a pair of edges; the label is the unit.

    >>> axis = Axis(np.array([0.0, 90.0, 180.0]), "minutes")
    >>> list(axis), len(axis), axis.label
    ([(0.0, 90.0), (90.0, 180.0)], 2, 'minutes')
    """

    edges: FloatArray
    label: str = ""
    traits: Traits = Traits()

    def __len__(self) -> int:
        return self.edges.size - 1

    def __getitem__(self, index: int) -> tuple[float, float]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"bin {index} of {len(self)}")
        bin_index = index % len(self)
        return float(self.edges[bin_index]), float(self.edges[bin_index + 1])

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return (self[index] for index in range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axis) and self.label == other.label and np.array_equal(self.edges, other.edges)

    __hash__ = None  # type: ignore[assignment]
