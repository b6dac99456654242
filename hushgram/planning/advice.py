"""Which of the alternatives to a collection is worth the change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushgram.planning.alternatives import Alternative
from hushgram.planning.expected_error import Outlook
from hushgram.simulation import Summary

BEYOND_NOISE = 3.0
"""Standard errors by which a difference must exceed the noise of the simulation: once in 700 comparisons by chance."""
WORTH_A_CHANGE = 0.05
"""The least gain that is worth a recommendation, as a share."""


@dataclass(frozen=True)
class Advice:
    """The recommended collection, which may be the present one, and the figure that both are judged by."""

    choice: Alternative
    figure: str
    now: Summary
    then: Summary
    as_good: Alternative | None = None
    """Fewer buckets that do no worse: they cost less to estimate."""
    server_only: tuple[Alternative, Summary] | None = None
    """What is better already without a change on devices, where the choice needs one."""

    @property
    def gain(self) -> float:
        """The relative reduction of the expected error."""
        return reduction(self.then, self.now)


def reduction(then: Summary, now: Summary) -> float:
    """By which share a figure is less.

    >>> reduction(Summary(0.75, 0.01, 8), Summary(1.0, 0.01, 8))
    0.25
    """
    return 1 - then.mean / now.mean


def keeps_reports(other: Alternative, present: Alternative) -> bool:
    """Whether devices go on as they are, and reports that were already collected can be estimated this way, too."""
    return other.collection.revision == present.collection.revision


def advise(tried: Sequence[tuple[Alternative, Outlook]]) -> Advice:
    """The best at the same ε, if it is better than the first by more than the noise of the simulation.

    What devices need not learn of is the cheapest change: another must be better than that by more than the noise, too.
    ε is a promise to people, not a setting: it is never advised, only shown.
    """
    (present, first), *others = tried
    figure = "w1" if "w1" in first.figures else "mean"
    now = first.mean(figure)
    rivals = [(other, seen.mean(figure)) for other, seen in others if other.kind != "epsilon"]
    better = [(other, then) for other, then in rivals if then.mean < now.mean and differs(then, now)]
    if not better:
        fewer = [
            other
            for other, seen in rivals
            if other.kind == "buckets"
            and other.collection.buckets < present.collection.buckets
            and seen.mean <= (1 + WORTH_A_CHANGE / 2) * now.mean
        ]
        return Advice(present, figure, now, now, as_good=fewer[0] if fewer else None)
    choice, then = min(better, key=_mean)
    cheap = min((item for item in better if keeps_reports(item[0], present)), key=_mean, default=None)
    if cheap is None or cheap[0] is choice:
        return Advice(choice, figure, now, then)
    if not differs(then, cheap[1]):
        return Advice(cheap[0], figure, now, cheap[1])
    return Advice(choice, figure, now, then, server_only=cheap)


def _mean(item: tuple[Alternative, Summary]) -> float:
    return item[1].mean


def differs(then: Summary, now: Summary) -> bool:
    """Whether two figures differ by a relevant amount, and beyond the noise of the simulation."""
    apart = abs(now.mean - then.mean)
    return apart > WORTH_A_CHANGE * now.mean and apart > BEYOND_NOISE * math.hypot(now.error, then.error)
