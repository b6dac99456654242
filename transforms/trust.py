"""How far the results of a window can be trusted: towards its readers, and against devices that lie.

Both follow from the revisions of a window and from how many reports each has, not from the reports themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from hushgram import Collection

DELTA = 1e-8
"""The probability with which the central ε may fail."""
LIARS = 0.01
"""The share of lying devices that the bound is for."""
DIGITS = 2
"""The number of reports is rounded down to this many digits, so that windows share an answer."""


def central_epsilon(collection: Collection, reports: Mapping[str, int]) -> float | None:
    """The greatest central ε of a window's revisions, each of which hides a device among its own reports only.

    An upper bound: fewer reports than there are hide less. None without reports, or where a mechanism has no answer.

    >>> commute = Collection(name="commute", low=0, high=180, epsilon=1.0)
    >>> round(central_epsilon(commute, {commute.revision: 10_499}), 3)
    0.05
    """
    return _greatest(
        _central_epsilon(collection.revisions[revision], round_down(count))
        for revision, count in reports.items()
        if count > 0
    )


def lying_bound(collection: Collection, reports: Mapping[str, int]) -> float | None:
    """How far 1 % of lying devices can move the distribution function unnoticed, if all choose the worst revision.

    >>> commute = Collection(name="commute", low=0, high=180, epsilon=1.0)
    >>> round(lying_bound(commute, {commute.revision: 10_499}), 3)
    0.027
    """
    present = [revision for revision, count in reports.items() if count > 0]
    return _greatest(collection.revisions[revision].lying_bound(LIARS) for revision in present)


def round_down(reports: int) -> int:
    """The greatest number of no more reports with zeros after its first digits.

    >>> round_down(7), round_down(10_999), round_down(123_456)
    (7, 10000, 120000)
    """
    unit = 10 ** max(len(str(reports)) - DIGITS, 0)
    return reports // unit * unit


@lru_cache(maxsize=1024)
def _central_epsilon(collection: Collection, reports: int) -> float | None:
    return collection.central_epsilon(reports, DELTA)


def _greatest(bounds: Iterable[float | None]) -> float | None:
    """None if any of them is not known, or if there are none."""
    known = list(bounds)
    return None if not known or None in known else max(bound for bound in known if bound is not None)
