"""How far snapshots can be trusted, in words: the same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from hushgram.intervals import ASSUMPTIONS
from hushgram.pipelines.formatting import number, shown
from hushgram.schemas.records import Snapshot


def trust_words(snapshots: Sequence[Snapshot]) -> list[tuple[str, str]]:
    """What holds of all snapshots of a collection, the newest last, each with its name; what none knows is left out."""
    newest = snapshots[-1]
    words = {}
    if newest.epsilon is not None:
        words["ε"] = f"{newest.epsilon:g} towards whoever sees a report ({shown(newest.mechanism or 'unknown')})"
    central = _greatest([snapshot.central_epsilon for snapshot in snapshots])
    if central is not None:
        words["central ε"] = f"{number(central, 2)} at most towards readers of the tallies alone, δ = 10⁻⁸"
    if newest.intervals is not None:
        words["intervals"] = ASSUMPTIONS.get(newest.intervals, shown(newest.intervals))
    lying = _greatest([snapshot.lying_bound for snapshot in snapshots])
    if lying is not None:
        words["1 % of liars"] = f"could shift a cumulative share by up to {number(100 * lying, 2)} percentage points"
    return list(words.items())


def _greatest(bounds: Sequence[float | None]) -> float | None:
    return max((bound for bound in bounds if bound is not None), default=None)
