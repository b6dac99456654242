"""Tests of drawn reports. But for χ², which has a margin, they are exact: their odds of a false alarm are bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from hushgram._arrays import FloatArray, IntArray
from hushgram.pipelines.conform.law import ReportLaw, greatest_gains

ENOUGH = 100.0
"""The expected number of reports that a bin of χ² has at least."""
MARGIN = 100.0
"""χ² is an approximation far out; it raises an alarm only where it is this much surer than it has to be."""
REPEAT_ODDS = 1e-9
FEW_CELLS = 64
ROUNDING = 1e-9


def fit_pvalue(law: ReportLaw, cells: IntArray) -> float:
    """A bound on the probability that reports of this law fit it as badly.

    The reports of each bin, of each run of 2, 4, 8, … bins, and of all bins of one probability are counted and tested
    by the binomial distribution, each at its share of the odds; χ² adds up what many bins deviate by a little. The law
    of a client is tested as a whole: every bin is one of the runs.
    """
    counts, expected = np.bincount(law.bins(cells), minlength=law.probabilities.size), law.probabilities
    parts = [_alike(counts, expected)]
    while True:
        parts.append((counts, expected))
        if counts.size <= 2:
            break
        counts, expected = _in_pairs(counts), _in_pairs(expected)
    found, wanted = (np.concatenate(part) for part in zip(*parts, strict=True))
    exact = found.size * float(_binomial_pvalues(found, cells.size, wanted).min())
    return min(1.0, 2 * exact, 2 * MARGIN * chi_square_pvalue(law, cells))


def _alike(counts: IntArray, probabilities: FloatArray) -> tuple[IntArray, FloatArray]:
    """The sums over bins of the same probability, if there are few kinds: what is favoured and what is not."""
    levels, kinds = np.unique(probabilities, return_inverse=True)
    if levels.size > FEW_CELLS:
        return counts[:0], probabilities[:0]
    return (
        np.bincount(kinds, weights=counts).astype(np.int64),
        np.bincount(kinds, weights=probabilities).astype(np.float64),
    )


def _binomial_pvalues(counts: IntArray, reports: int, probabilities: FloatArray) -> FloatArray:
    """Two-sided: twice the smaller tail."""
    shares = np.minimum(probabilities, 1.0)
    below, above = stats.binom.cdf(counts, reports, shares), stats.binom.sf(counts - 1, reports, shares)
    return np.minimum(1.0, 2 * np.minimum(below, above))


def _in_pairs(values: Any) -> Any:
    padded = np.append(values, values.dtype.type(0)) if values.size % 2 else values
    return padded.reshape(-1, 2).sum(axis=1)


def chi_square_pvalue(law: ReportLaw, cells: IntArray) -> float:
    """Of bins that are pooled with their neighbours until enough reports are expected in each."""
    expected = law.probabilities * cells.size
    pools = np.minimum(np.floor(np.cumsum(expected) / ENOUGH), max(math.floor(cells.size / ENOUGH) - 1, 0))
    _, pools = np.unique(pools, return_inverse=True)
    wanted = np.bincount(pools, weights=expected)
    if wanted.size < 2:
        return 1.0
    found = np.bincount(pools[law.bins(cells)], minlength=wanted.size)
    return float(stats.chi2.sf(((found - wanted) ** 2 / wanted).sum(), wanted.size - 1))


@dataclass(frozen=True)
class EpsilonBounds:
    """With a stated confidence, the logarithm of how much likelier one value makes some reports than another does."""

    lower: float
    upper: float


def bound_epsilon(laws: tuple[ReportLaw, ReportLaw], cells: tuple[IntArray, IntArray], odds: float) -> EpsilonBounds:
    """Bounds on ε, from reports of two values: they hold together but for the given odds (Clopper and Pearson).

    Counted are the reports that the manifest's law makes much likelier by one of the two values, for each of the two in
    turn: by Neyman and Pearson, no other event tells the values apart better. Where cells are few, each may raise the
    lower bound too.
    """
    split = [np.log(laws[0].likelihoods(drawn) / laws[1].likelihoods(drawn)) for drawn in cells]
    greatest = greatest_gains(*laws)
    events = [
        _much_likelier([sign * part for part in split], most) for sign, most in zip((1, -1), greatest, strict=True)
    ]
    if laws[0].cells <= FEW_CELLS:
        events += [[drawn == cell for drawn in cells] for cell in range(laws[0].cells)]
    tail = odds / (4 * len(events))
    lower, upper = 0.0, 0.0
    for index, event in enumerate(events):
        (low_a, high_a), (low_b, high_b) = (_clopper_pearson(int(part.sum()), part.size, tail) for part in event)
        lower = max(lower, _log_ratio(low_a, high_b), _log_ratio(low_b, high_a))
        if index < 2:
            upper = max(upper, _log_ratio(high_a, low_b), _log_ratio(high_b, low_a))
    return EpsilonBounds(lower, upper)


def _much_likelier(gains: Sequence[FloatArray], greatest: float) -> list[npt.NDArray[np.bool_]]:
    """Of the reports of each value, those that gain more than half of the greatest; all, if that is but rounding."""
    return [part > greatest / 2 if greatest > ROUNDING else np.ones(part.shape, dtype=bool) for part in gains]


def _clopper_pearson(hits: int, reports: int, tail: float) -> tuple[float, float]:
    low = float(stats.beta.ppf(tail, hits, reports - hits + 1)) if hits else 0.0
    high = float(stats.beta.isf(tail, hits + 1, reports - hits)) if hits < reports else 1.0
    return low, high


def _log_ratio(above: float, below: float) -> float:
    if above == 0.0:
        return -math.inf
    return math.log(above / below) if below > 0.0 else math.inf


def serial_pvalue(law: ReportLaw, cells: IntArray) -> float:
    """Whether a report depends on the one before it: how often both of a pair are of the likelier half of the bins."""
    order = np.argsort(-law.probabilities, kind="stable")
    likely = np.zeros(law.probabilities.size, dtype=bool)
    likely[order[: np.searchsorted(np.cumsum(law.probabilities[order]), 0.5) + 1]] = True
    share = float(law.probabilities[likely].sum())
    hits = likely[law.bins(cells[: cells.size // 2 * 2])].reshape(-1, 2).all(axis=1)
    return float(_binomial_pvalues(np.array([hits.sum()]), hits.size, np.array([share**2]))[0])


def find_repeat(law: ReportLaw, sequences: list[IntArray]) -> int | None:
    """The length of a stretch of reports that occurs twice, though reports of this law would not; or None.

    By chance two stretches of that length are alike, anywhere in the sequences, with a probability below one in a
    billion: whether they overlap or not, each report of the second has to be one that is given, which has at most the
    probability of the likeliest.
    """
    total = sum(sequence.size for sequence in sequences)
    bits = -math.log2(float(law.probabilities.max()))
    if bits < 1e-3:
        return None
    length = math.ceil((2 * math.log2(max(total, 2)) - math.log2(REPEAT_ODDS)) / bits)
    hashes = np.concatenate([_stretch_hashes(part, length) for part in sequences])
    ordered = np.sort(hashes)
    return length if (ordered[1:] == ordered[:-1]).any() else None


def _stretch_hashes(cells: IntArray, length: int) -> npt.NDArray[np.uint64]:
    """A hash of 64 bits of every stretch of a length: two that differ are alike with a probability of 2^-64."""
    words = cells.astype(np.uint64)
    stretches = max(words.size - length + 1, 0)
    factor, hashes = np.uint64(0x9E3779B97F4A7C15), np.zeros(stretches, dtype=np.uint64)
    for start in range(length if stretches else 0):
        hashes = (hashes ^ (hashes >> np.uint64(29))) * factor + words[start : start + stretches]
    return hashes
