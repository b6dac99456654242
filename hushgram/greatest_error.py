"""The greatest of many errors that have a joint normal law: its quantile is the half-width of a band."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, qr
from scipy.linalg.blas import strmm

from hushgram._arrays import FloatArray

DRAWS = 1000
"""So many are drawn from the law, in single precision: their own error is a few percent."""
GRAIN = 64
"""Random numbers are kept for sizes that are multiples of this; a smaller law takes the first of them."""
NEGLIGIBLE = 1e-12
"""A share of the greatest variance, added to all: a covariance that is singular has a root then, too."""


def greatest_error(covariance: FloatArray, level: float) -> float:
    """The quantile of the greatest absolute value of normal errors with this covariance.

    The random numbers are always the same, and the root changes little when the covariance does: laws that are close
    have close quantiles.

    >>> 2.0 < greatest_error(np.eye(5), 0.95) < 3.0  # in truth 2.57
    True
    """
    return float(np.quantile(np.abs(_draws(covariance)).max(axis=1), level))


def greatest_deviation(covariance: FloatArray, level: float) -> float:
    """The quantile of the greatest of normal errors, each over its standard deviation."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    scale = np.where(deviations > 0, deviations, 1.0)
    return greatest_error(covariance / np.outer(scale, scale), level)


def greatest_change(covariance: FloatArray, lengths: Iterable[int], level: float) -> float:
    """The quantile of the greatest difference between errors at points some lengths apart, each over its deviation.

    >>> changes = greatest_change(np.diag([0.0, 1.0, 1.0]), [2], 0.95)
    >>> 1.9 < changes < 2.0  # in truth 1.96
    True
    """
    variances, points = np.diag(covariance), np.ascontiguousarray(_draws(covariance).T)
    greatest = np.zeros(DRAWS, dtype=np.float32)
    for length in lengths:
        spread = variances[length:] + variances[:-length] - 2 * np.diag(covariance, length)
        known = spread <= NEGLIGIBLE * float(variances.max())
        changes = points[length:] - points[:-length]
        changes /= np.sqrt(np.where(known, np.inf, spread)).astype(np.float32)[:, None]
        np.maximum(greatest, np.abs(changes, out=changes).max(axis=0), out=greatest)
    return float(np.quantile(greatest, level))


def _draws(covariance: FloatArray) -> npt.NDArray[np.float32]:
    """Errors with this covariance, a draw to a row."""
    size = len(covariance)
    root, normals = _root(covariance).astype(np.float32), _normals(-(-size // GRAIN) * GRAIN)[:size]
    draws: npt.NDArray[np.float32] = strmm(1.0, root.T, normals.T, side=1)
    return draws  # root @ normals, transposed: BLAS counts along columns


def _root(covariance: FloatArray) -> FloatArray:
    """A lower triangular L with LLᵀ the covariance, without negative directions where an approximation has some."""
    raised = covariance.copy()
    raised[np.diag_indices(len(raised))] += NEGLIGIBLE * float(np.diag(covariance).max())
    try:
        root: FloatArray = cholesky(raised.T, lower=True, overwrite_a=True, check_finite=False)
        return root
    except np.linalg.LinAlgError:
        scale, directions = np.linalg.eigh(covariance)
        return qr((directions * np.sqrt(np.maximum(scale, 0.0))).T, mode="r")[0].T


@lru_cache(maxsize=8)
def _normals(size: int) -> npt.NDArray[np.float32]:
    """Independent normal errors, one draw to a column; a row does not depend on how many there are."""
    normals = np.random.default_rng(0).standard_normal((size, DRAWS)).astype(np.float32)
    normals.flags.writeable = False
    return normals
