"""Bins no finer than the reports can tell apart: a picture of them shows no noise as fact.

Of a number of equal bins, neighbours are joined to runs. A run is *narrow* if its density is known to within `NARROW`
of itself, or of the average density where that is greater. Of all ways to cover the domain by narrow runs, the finest
is taken, the one with the least sum of squared lengths. Bounds hold for all runs at once, and so for those that are
taken, however they were chosen.
"""

from __future__ import annotations

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.greatest_error import greatest_change

NARROW = 0.5
"""The half-width of a narrow run's bounds, at most, over the greater of its share and its part of the domain."""
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
"""The lengths of runs, beside that of all bins: a few, since bounds that hold for more runs are wider."""


def find_readable_bins(
    shares: FloatArray, covariance: FloatArray, sizes: FloatArray, level: float
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Where narrow runs of bins begin and the last one ends, and bounds of their shares, all at once.

    `shares` and their errors' `covariance` are of the bins, `sizes` their parts of the domain.

    >>> shares = np.array([0.7, 0.1, 0.1, 0.1])
    >>> find_readable_bins(shares, 1e-4 * np.eye(4), np.full(4, 0.25), 0.95)[0].tolist()
    [0, 1, 2, 3, 4]
    >>> find_readable_bins(shares, 6e-3 * np.eye(4), np.full(4, 0.25), 0.95)[0].tolist()
    [0, 1, 4]
    """
    count = shares.size
    lengths = [length for length in LENGTHS if length < count] + [count]
    starts = np.concatenate([np.arange(count - length + 1) for length in lengths])
    ends = starts + np.repeat(lengths, [count - length + 1 for length in lengths])
    curve = np.concatenate([[0.0], np.cumsum(shares)])
    together = np.pad(np.cumsum(np.cumsum(covariance, axis=0), axis=1), (1, 0))
    variances = together[starts, starts] + together[ends, ends] - 2 * together[starts, ends]
    halves = np.sqrt(np.maximum(variances, 0.0)) * greatest_change(together, lengths[:-1], level)
    halves[-1] = 0.0  # all values lie in all bins
    centres = curve[ends] - curve[starts]
    chosen = finest_narrow_runs(starts, ends, centres, halves, sizes)
    bounds = np.append(starts[chosen], count)
    return bounds, np.clip((centres - halves)[chosen], 0.0, 1.0), np.clip((centres + halves)[chosen], 0.0, 1.0)


def finest_narrow_runs(
    starts: IntArray, ends: IntArray, centres: FloatArray, halves: FloatArray, sizes: FloatArray
) -> list[int]:
    """Of runs, one of them of all bins, those that are the finest cover by narrow ones, from the first on."""
    below = np.concatenate([[0.0], np.cumsum(sizes)])
    narrow = (halves <= NARROW * np.maximum(centres, below[ends] - below[starts])) | (ends - starts == sizes.size)
    return _finest(sizes.size, starts, ends, halves, np.flatnonzero(narrow))


def _finest(count: int, starts: IntArray, ends: IntArray, halves: FloatArray, narrow: IntArray) -> list[int]:
    """The runs that cover all bins with the least sum of squared lengths; of equals, with the least of half-widths.

    By dynamic programming: the best cover of the first bins is that of fewer of them, and one run more.
    """
    best: list[tuple[int, float, int]] = [(0, 0.0, -1)] + [(count * count + 1, 0.0, -1)] * count
    runs = narrow[np.argsort(ends[narrow], kind="stable")]
    columns = (of_runs.tolist() for of_runs in (runs, starts[runs], ends[runs], halves[runs]))
    for run, start, end, half in zip(*columns, strict=True):
        squares, widths, _ = best[start]
        best[end] = min(best[end], (squares + (end - start) ** 2, widths + half, run))
    chosen, end = [], count
    while end > 0:
        chosen.append(best[end][2])
        end = int(starts[chosen[-1]])
    return chosen[::-1]
