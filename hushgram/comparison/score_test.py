"""A test that two sets of tallies come from the same distribution, across revisions, ε and mechanisms.

Each of some smooth changes of the distribution has a score, as in the test of Rao: how much likelier the reports of one
side, but not of the other, become with it. Under the hypothesis its expectation is zero by construction, whatever the
distribution is and however roughly it is known; a fit only decides how reports are weighed. Few directions, the slow
ones first, have far more power than all the cells of a tally, most of which say the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from hushgram._arrays import FloatArray, IntArray
from hushgram.comparison.always_valid import always_valid_pvalue
from hushgram.comparison.chi_square_mixture import mixture_tail
from hushgram.comparison.observations import Observation, observation_of, split
from hushgram.intervals import NotEstimableError
from hushgram.mechanisms.base import Mechanism

Tallies = Iterable[tuple[Mechanism, IntArray]]
"""The tallies of one window or group, each with the mechanism that its reports went through."""

PARTS = 256
"""The most equal parts of the domain that a distribution is described by."""
DIRECTIONS = 24
"""Changes of the density that are tested: cosines of 1, 2, … half-periods on the domain."""
DECAY = 0.75
"""Each direction counts by this power of one over its frequency: slow changes are the likely ones."""
FIT_STEPS = 100
"""Steps of EM from the uniform distribution: close enough to weigh reports by. Power, not size, depends on it."""
RIDGE = 1e-9
"""Added to the information, as a share of its average: two means say nothing about most of a distribution."""


def same_distribution(first: Tallies, second: Tallies, *, growing: bool = False) -> float:
    """The p-value of the test that the values behind two sets of tallies have one distribution over one domain.

    The sets must have no report in common: a group and the total that contains it are not independent. Where reports
    determine a mean only, it is the test that both means are equal. While sets are still `growing`, and the test is
    made again and again, an ordinary p-value falls below 0.05 sooner or later; that for growing sets does so at any
    time with a chance of 5 % only.

    >>> from hushgram import Collection
    >>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0)
    >>> once, again, later = (
    ...     [(commute.mechanism, commute.tally(commute.simulate([minutes] * 5000, seed=seed)))]
    ...     for minutes, seed in [(37.5, 1), (37.5, 2), (50, 3)]
    ... )
    >>> same_distribution(once, again) > 0.05, same_distribution(once, later) < 0.05
    (True, True)
    """
    score, covariance = _score(_sources(first, second))
    spread, modes = np.linalg.eigh(covariance)
    if growing:
        return always_valid_pvalue(modes.T @ score, np.maximum(spread, 0.0))
    return mixture_tail(float(score @ score), spread)


@dataclass(frozen=True, eq=False)
class _Source:
    """An observation of both sides; one of them may have no report of it."""

    observation: Observation
    tallies: tuple[IntArray, IntArray]

    @property
    def pooled(self) -> IntArray:
        return self.tallies[0] + self.tallies[1]

    @property
    def reports(self) -> tuple[int, int]:
        return self.observation.reports(self.tallies[0]), self.observation.reports(self.tallies[1])

    def weighed(self, fit: FloatArray) -> FloatArray:
        """The design with each number weighed by its precision."""
        precision = self.observation.precision(self.observation.design @ fit, self.pooled)
        return precision[:, None] * self.observation.design

    def surplus(self, side: int, fit: FloatArray) -> FloatArray:
        """By how much a side's numbers exceed those that the fit expects."""
        expected = self.observation.design @ fit
        return self.observation.totals(self.tallies[side]) - self.reports[side] * expected


def _sources(first: Tallies, second: Tallies) -> list[_Source]:
    sides: list[dict[Mechanism, IntArray]] = []
    buckets = []
    for name, tallies in (("first", first), ("second", second)):
        summed: dict[Mechanism, IntArray] = {}
        for mechanism, tally in tallies:
            buckets.append(mechanism.buckets)
            for simple, part in split(mechanism, tally):
                summed[simple] = summed.get(simple, 0) + part
        if not any(mechanism.reports(tally) for mechanism, tally in summed.items()):
            raise NotEstimableError(f"nothing to compare: the {name} of the two has no reports")
        sides.append(summed)
    parts = min(PARTS, max(buckets))
    sources = []
    for mechanism in {**sides[0], **sides[1]}:
        none = np.zeros(mechanism.tally_length, dtype=np.int64)
        one, other = (side.get(mechanism, none) for side in sides)
        if mechanism.reports(one) or mechanism.reports(other):
            sources.append(_Source(observation_of(mechanism, parts), (one, other)))
    return sources


def _score(sources: Sequence[_Source]) -> tuple[FloatArray, FloatArray]:
    """The scores of the directions, and their covariance under the hypothesis."""
    parts = sources[0].observation.design.shape[1]
    fit = _fit(sources, parts)
    weighed = [source.weighed(fit) for source in sources]
    directions = _directions(parts) * fit
    directions -= directions.sum(axis=1, keepdims=True) * fit
    size = len(directions)
    score, covariance = np.zeros(size), np.zeros((size, size))
    for side, rows in enumerate(_eliminated(sources, weighed, directions)):
        for source, weights in zip(sources, weighed, strict=True):
            if not source.reports[side]:
                continue
            of_numbers = rows @ weights.T
            score += (1 - 2 * side) * of_numbers @ source.surplus(side, fit)
            covariance += source.reports[side] * source.observation.covariance(of_numbers, source.pooled)
    return score, covariance


def _fit(sources: Sequence[_Source], parts: int) -> FloatArray:
    """The distribution of both sides together, roughly: x ← x ∘ Σ Aᵀ(s / Ax), of sum 1."""
    x = np.full(parts, 1 / parts)
    pairs = [(source.observation.design, source.observation.totals(source.pooled)) for source in sources]
    for _ in range(FIT_STEPS):
        pull = np.zeros(parts)
        for design, totals in pairs:
            pull += (totals / (design @ x)) @ design
        x *= pull
        x /= x.sum()
    return x


@lru_cache(maxsize=8)
def _directions(parts: int) -> FloatArray:
    """√2·cos(πku)/k^¾ on equal parts, for k = 1, 2, …: a change of the density by a share of itself."""
    k = np.arange(1, min(DIRECTIONS, parts - 1) + 1)[:, None]
    return np.sqrt(2) * np.cos(np.pi * k * (np.arange(parts) + 0.5) / parts) / k**DECAY


def _eliminated(
    sources: Sequence[_Source], weighed: Sequence[FloatArray], directions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Directions for either side such that the difference of their scores is free of the common distribution.

    With F₁ and F₂ the sides' information, these are D(I - B) and DB, where B = F₁(F₁ + F₂)⁻¹: the expectations
    D(I - B)F₁x and DBF₂x are the same for every x. Where both sides have the same mechanisms in the same proportion,
    B is the first side's share of all reports.
    """
    reports = np.array([source.reports for source in sources], dtype=np.float64)
    total = reports.sum(axis=0)
    if np.array_equal(reports[:, 0] * total[1], reports[:, 1] * total[0]):
        share = total[0] / total.sum()
        return (1 - share) * directions, share * directions
    informations = [np.zeros((directions.shape[1],) * 2) for _ in range(2)]
    for source, weights, counts in zip(sources, weighed, reports, strict=True):
        own = source.observation.design.T @ weights
        for information, count in zip(informations, counts, strict=True):
            information += count * own
    both = informations[0] + informations[1]
    both[np.diag_indices_from(both)] += RIDGE * both.trace() / len(both)
    second = cho_solve(cho_factor(both, check_finite=False), informations[0] @ directions.T, check_finite=False).T
    return directions - second, second
