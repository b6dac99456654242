"""The collections of a pipeline, numbered, with what parsing and counting look up in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from hushgram import Collection, CollectionError
from hushgram._arrays import IntArray, UIntArray
from hushgram.schemas.columns import revision_number

FUTURE_ALLOWED = 5 * 60 * 1000
"""Clocks differ: an event time may be up to this many milliseconds later than the time of receipt."""
EARLIEST = -59_011_459_200_000
"""The first millisecond of the year 100. What begins before the year 1 is no date to engines and tables, and windows of
up to ten years begin before the times in them."""


@dataclass(frozen=True)
class CollectionIndex:
    """Collections in the order in which columns number them. Times are milliseconds since 1970."""

    collections: tuple[Collection, ...]

    @classmethod
    def of(cls, collections: Iterable[Collection]) -> Self:
        """The index of some collections; of two with one name, a report could belong to either."""
        index = cls(tuple(collections))
        for name, times in Counter(collection.name for collection in index.collections).items():
            if times > 1:
                raise CollectionError(f"collections: got {name!r} twice, allowed: each name only once")
        return index

    @cached_property
    def places(self) -> dict[str, int]:
        return {collection.name: place for place, collection in enumerate(self.collections)}

    @cached_property
    def revisions(self) -> tuple[tuple[Collection, ...], ...]:
        """Of each collection, its revisions: the current one first."""
        return tuple(tuple(collection.revisions.values()) for collection in self.collections)

    @cached_property
    def revision_numbers(self) -> tuple[UIntArray, ...]:
        return tuple(
            np.array([revision_number(revision) for revision in collection.revisions], dtype=np.uint64)
            for collection in self.collections
        )

    @cached_property
    def alphabets(self) -> tuple[IntArray, ...]:
        """Of each collection, how many cells each revision has."""
        return tuple(
            np.array([revision.mechanism.cells for revision in revisions], dtype=np.int64)
            for revisions in self.revisions
        )

    @cached_property
    def max_ages(self) -> IntArray:
        """Of each collection, how old a report may be when it is received."""
        return np.array([collection.windows.max_age for collection in self.collections], dtype=np.int64)


def cell_width(cells: int) -> int:
    """How many bytes a batch takes for one cell, given the size of the alphabet: 1, 2, 4 or 8.

    >>> [cell_width(cells) for cells in (256, 257, 65536, 65537, 2**32 + 1)]
    [1, 2, 2, 4, 8]
    """
    return np.min_scalar_type(cells - 1).itemsize
