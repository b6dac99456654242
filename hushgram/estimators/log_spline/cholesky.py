"""Cholesky factors of small matrices, straight from LAPACK: scipy takes as long to check them as to compute."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from hushgram._arrays import FloatArray

ROUNDING = 1e-13
"""More than the rounding error of a sum of some hundred products, over their size."""


def factor(matrix: FloatArray) -> FloatArray:
    """The lower triangular L with LLᵀ = `matrix`, which is symmetric and positive definite but for rounding.

    Sharp information about some coefficients has rounding errors that may exceed all there is about others: then the
    diagonal is raised by as much.
    """
    root, failed = dpotrf(matrix.T, lower=1)
    if failed:
        raised = matrix.copy()
        raised[np.diag_indices(len(matrix))] += ROUNDING * len(matrix) * float(np.abs(np.diag(matrix)).max())
        root, failed = dpotrf(raised.T, lower=1)
    if failed:
        raise LinAlgError(f"not positive definite: {failed}")
    return root


def solve(root: FloatArray, target: FloatArray) -> FloatArray:
    """(LLᵀ)⁻¹ times a vector or the columns of an array."""
    return dpotrs(root, target, lower=1)[0]


def inverse(root: FloatArray) -> FloatArray:
    """(LLᵀ)⁻¹."""
    lower = dpotri(root, lower=1)[0]
    whole: FloatArray = lower + lower.T
    whole[np.diag_indices(len(whole))] /= 2
    return whole
