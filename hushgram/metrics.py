"""How far an estimate is from the true distribution (paper, section 3): on the unit domain, over equal buckets."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hushgram._arrays import FloatArray

DECILES = tuple(tenth / 10 for tenth in range(1, 10))


def wasserstein(true: npt.ArrayLike, estimated: npt.ArrayLike) -> float:
    """W1: the area between the distribution functions.

    >>> wasserstein([1, 0, 0, 0], [0, 0, 0, 1])
    0.75
    """
    return float(np.abs(_difference(true, estimated)).mean())


def kolmogorov_smirnov(true: npt.ArrayLike, estimated: npt.ArrayLike) -> float:
    """The greatest distance between the distribution functions."""
    return float(np.abs(_difference(true, estimated)).max())


def range_query_error(true: npt.ArrayLike, estimated: npt.ArrayLike, share: float) -> float:
    """The mean absolute error over all ranges of buckets that cover `share` of the domain."""
    difference = np.concatenate([[0.0], _difference(true, estimated)])
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share!r}")
    width = max(1, round(share * (difference.size - 1)))
    return float(np.abs(difference[width:] - difference[:-width]).mean())


def mean_error(true: npt.ArrayLike, estimated: npt.ArrayLike) -> float:
    return abs(_moments(true)[0] - _moments(estimated)[0])


def variance_error(true: npt.ArrayLike, estimated: npt.ArrayLike) -> float:
    return abs(_moments(true)[1] - _moments(estimated)[1])


def quantile_error(true: npt.ArrayLike, estimated: npt.ArrayLike, shares: tuple[float, ...] = DECILES) -> float:
    """The mean absolute error of the quantiles, by default 10 %, 20 %, … 90 %."""
    pairs = zip(_quantiles(true, shares), _quantiles(estimated, shares), strict=True)
    return float(np.mean([abs(a - b) for a, b in pairs]))


def _difference(true: npt.ArrayLike, estimated: npt.ArrayLike) -> FloatArray:
    first, second = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1 or first.size == 0:
        raise ValueError(f"both must be vectors of the same length, got shapes {first.shape} and {second.shape}")
    return np.cumsum(first - second)


def _moments(distribution: npt.ArrayLike) -> tuple[float, float]:
    probabilities = np.asarray(distribution, dtype=np.float64)
    centres = (np.arange(probabilities.size) + 0.5) / probabilities.size
    mean = float(probabilities @ centres)
    return mean, float(probabilities @ (centres - mean) ** 2)


def _quantiles(distribution: npt.ArrayLike, shares: tuple[float, ...]) -> list[float]:
    """The end of the last bucket up to which at most a share of the mass lies (section 3.2)."""
    cumulative = np.cumsum(np.asarray(distribution, dtype=np.float64))
    return [
        float(np.flatnonzero(np.append(True, cumulative <= share + 1e-12))[-1] / cumulative.size) for share in shares
    ]
