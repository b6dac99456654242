"""The number of reports that a target error takes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hushgram._validation import refuse
from hushgram.collection import Collection
from hushgram.planning.expected_error import ERRORS, Runs, Shape, outlook

MOST_REPORTS = 10**10
FEWEST_REPORTS = 10
ALLOWED = "such as 'median ± 2', 'mean +- 0.5', 'p90 ± 5', 'w1 0.01' or 'ks 0.02'"

_NUMBER = r"([0-9.]+(?:e[-+]?[0-9]+)?)"
_ERROR = re.compile(rf"(w1|ks)\s*(?:<=|≤|<|=|:)?\s*{_NUMBER}", re.IGNORECASE)
_INTERVAL = re.compile(rf"(mean|median|p[0-9]+(?:\.[0-9]+)?)\s*(?:±|\+/?-)\s*{_NUMBER}\s*(.*)", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """A figure of an outlook, as `w1`, `mean` or `p50`, and the most that it may be."""

    figure: str
    most: float


def parse_target(text: str, collection: Collection) -> Target:
    """A target from text; a unit is optional, and must be the collection's.

    >>> commute = Collection(name="commute", low=0, high=180, epsilon=1.0, unit="minutes")
    >>> parse_target("median ± 2 minutes", commute)
    Target(figure='p50', most=2.0)
    >>> parse_target("w1 0.01", commute)
    Target(figure='w1', most=0.01)
    """
    match = _ERROR.fullmatch(text.strip()) or _INTERVAL.fullmatch(text.strip())
    if match is None:
        refuse("target", text, ALLOWED)
    name, amount, *unit = match.groups()
    figure = {"median": "p50"}.get(name.lower(), name.lower())
    if unit and unit[0] and unit[0] != collection.unit:
        refuse("target", text, f"the collection's unit, {collection.unit or 'of which there is none'}")
    if collection.mechanism.mean_only and figure != "mean":
        refuse("target", text, f"the mean only with {collection.mechanism.name}, which estimates nothing else")
    if figure[0] == "p" and not 0 < float(figure[1:]) < 100:
        refuse("target", text, "quantiles between p0 and p100")
    try:
        most = float(amount)
    except ValueError:
        refuse("target", text, ALLOWED)
    limit = 1.0 if figure in ERRORS else collection.high - collection.low
    if not 0 < most < limit:
        refuse("target", text, f"an error above 0 and below {limit:g}")
    return Target(figure, most)


@dataclass(frozen=True)
class Need:
    """The reports that an error takes, and what was seen on the way: (reports, error), in order of reports.

    `reports` is None where even the most that was tried do not reach it.
    """

    reports: int | None
    seen: tuple[tuple[int, float], ...]


def reports_needed(collection: Collection, shape: Shape, target: Target, start: int, runs: Runs, seed: int) -> Need:
    """The reports that one estimate needs to reach a target on the distribution of a shape."""

    def expected(reports: int) -> float:
        return outlook(collection, [shape], reports, [target.figure], runs, seed).mean(target.figure).mean

    return reports_for(target.most, expected, start)


CLOSE = 0.03
"""An error this close to the target, as a share, ends the search: simulation is not more exact."""
NEAR = 1.25
"""Two numbers of reports this close around the answer end the search too."""
FLAT = -0.05
"""From this slope on, more reports are taken not to reduce the error."""
SEARCHES = 12


def reports_for(most: float, expected: Callable[[int], float], start: int) -> Need:
    """Where an error that falls with the number of reports comes down to `most`.

    Errors are straight lines of slope near -½ when both are read as logarithms, so the search leaps along such a line
    until it has the answer between two points, and along the line between those after that. The answer is read from a
    line through all points near it, which evens out the noise of simulation.

    >>> reports_for(0.01, lambda n: 3 / n**0.5, start=100).reports
    90000
    >>> reports_for(0.01, lambda n: 0.02 + 3 / n**0.5, start=100).reports is None
    True
    """
    seen: dict[int, float] = {}
    reports = min(max(start, FEWEST_REPORTS), MOST_REPORTS)
    while len(seen) < SEARCHES and reports not in seen:
        seen[reports] = max(expected(reports), 1e-300)
        short = max((n for n, error in seen.items() if error > most), default=None)
        enough = min((n for n in seen if short is None or n > short), default=None)
        if short == MOST_REPORTS:
            return Need(None, tuple(sorted(seen.items())))
        if enough == FEWEST_REPORTS:
            return Need(FEWEST_REPORTS, tuple(sorted(seen.items())))
        if abs(math.log(seen[reports] / most)) < CLOSE:
            break
        if short is not None and enough is not None:
            if enough <= NEAR * short:
                break
            reports = _between(short, seen[short], enough, seen[enough], most)
        else:
            reports = _leap(seen, most)
    points = tuple(sorted(seen.items()))
    return Need(_on_the_line(points, most), points)


def _leap(seen: dict[int, float], most: float) -> int:
    """From the point nearest to the target, by the slope that the last two show, or by -½."""
    (nearest, error), *others = sorted(seen.items(), key=lambda point: abs(math.log(point[1] / most)))
    slope = -0.5
    if others:
        slope = min(math.log(error / others[0][1]) / math.log(nearest / others[0][0]), 0.0)
    if slope > FLAT:
        return MOST_REPORTS if error > most else FEWEST_REPORTS
    wanted = math.log(nearest) + math.log(most / error) / slope
    return round(math.exp(min(max(wanted, math.log(FEWEST_REPORTS)), math.log(MOST_REPORTS))))


def _between(short: int, error: float, enough: int, less: float, most: float) -> int:
    """Along the line between two points, but well inside: a noisy point must not stop the search at its side."""
    share = math.log(error / most) / math.log(error / less)
    return round(short * (enough / short) ** min(max(share, 0.1), 0.9))


def _on_the_line(points: tuple[tuple[int, float], ...], most: float) -> int:
    """Where the line through the points nearest to the crossing reaches it, but between the points on its two sides.

    Errors with a floor are no straight lines: the fitted one may miss the crossing that two points enclose.
    """
    logs = np.log([(n, error) for n, error in points])
    crossing = logs[np.argmin(np.abs(logs[:, 1] - math.log(most))), 0]
    near = logs[np.abs(logs[:, 0] - crossing) < math.log(4)]
    if len(near) < 2:
        return round(math.exp(crossing))
    slope, level = np.polyfit(near[:, 0], near[:, 1], 1)
    answer = (math.log(most) - level) / slope if slope < FLAT else crossing
    short = logs[logs[:, 1] > math.log(most), 0]
    low = max(near[0, 0], short.max(initial=-math.inf))
    above = logs[logs[:, 0] > low, 0] if short.size else near[-1:, 0]
    high = min(near[-1, 0], above.min(initial=math.inf))
    return round(math.exp(min(max(answer, low), high)))
