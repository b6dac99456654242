"""Sets of `widths` of a Square Wave, factors of its bandwidth: those that are compared, and the one a plan tries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hushgram.mechanisms import SquareWave
from hushgram.planning.advice import advise
from hushgram.planning.alternatives import Alternative, possible_changes
from hushgram.planning.expected_error import Outlook

WidthSet = tuple[float, ...]

WIDTH_SETS: tuple[WidthSet, ...] = (
    (0.25, 1.0),
    (0.5, 1.0),
    (0.75, 1.25),
    (0.5, 1.5),
    (1.0, 2.0),
    (0.5, 0.75, 1.0),
    (0.75, 1.0, 1.25),
    (0.5, 1.0, 1.5),
    (1.0, 1.5, 2.0),
    (0.25, 0.5, 0.75, 1.0),
    (0.5, 0.75, 1.0, 1.25),
    (0.75, 1.0, 1.25, 1.5),
    (0.5, 1.0, 1.5, 2.0),
)
"""What `make widths` compares with one width."""
BEST_SETS: dict[float, WidthSet] = {
    0.5: (0.25, 0.5, 0.75, 1.0),
    1.0: (0.25, 0.5, 0.75, 1.0),
    2.0: (0.25, 0.5, 0.75, 1.0),
    4.0: (0.5, 1.0, 1.5, 2.0),
}
"""By ε, the set that `make widths` finds best."""


def best_set(epsilon: float) -> WidthSet:
    """The best set of the nearest ε, by ratio.

    >>> best_set(1.3), best_set(3.5)
    ((0.25, 0.5, 0.75, 1.0), (0.5, 1.0, 1.5, 2.0))
    """
    return BEST_SETS[min(BEST_SETS, key=lambda known: abs(math.log(known / epsilon)))]


def width_alternatives(tried: Sequence[tuple[Alternative, Outlook]]) -> list[Alternative]:
    """Square Waves of other widths, with the estimator that was found best for the present ones.

    Another estimator costs devices nothing, so other widths are worth their cost only for what they gain beside it.
    """
    wave = tried[0][0].collection.mechanism
    if not isinstance(wave, SquareWave):
        return []
    estimators = [(other, seen) for other, seen in tried if other.kind in ("now", "estimator")]
    best = advise(estimators).choice.collection
    sets = [widths for widths in (None, best_set(best.epsilon)) if widths != wave.widths]
    others = possible_changes(best, (("widths", {"widths": widths}) for widths in sets))
    return [other for other in others if other.kind == "widths" and _differ(other.collection.mechanism)]


def _differ(wave: object) -> bool:
    """Whether the widths are different in buckets, too: few of these round them to the same."""
    return isinstance(wave, SquareWave) and len(set(wave.half_widths)) == len(wave.half_widths)
