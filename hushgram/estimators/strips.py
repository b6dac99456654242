"""A fit without smoothing on a few strips of the domain: no blur, at the price of more noise."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.estimators.em import Part
from hushgram.estimators.types import Uncertainty
from hushgram.heavy_ends import strip_bounds
from hushgram.mechanisms.base import Transition

SMALLEST_DIRECTION = 1e-9
"""Singular values below this share of the largest are left out: reports hardly determine these directions."""


def least_squares(parts: Sequence[Part]) -> list[Uncertainty]:
    """For each window the distribution over strips whose cells come nearest to those reported.

    With A = Σ MᵀD⁻¹M over the revisions, D the probabilities of their cells when values are uniform, x = A⁻¹ Σ MᵀD⁻¹f
    is linear in the counts f, which vary as a multinomial.
    """
    buckets = parts[0].mechanism.buckets
    return [_fit(parts, row, strip_bounds(buckets) / buckets) for row in range(len(parts[0].counts))]


def _fit(parts: Sequence[Part], row: int, edges: FloatArray) -> Uncertainty:
    reports = np.array([part.counts[row].sum() for part in parts])
    inverse = _inverse(tuple(part.mechanism for part in parts), tuple((reports / reports.sum()).tolist()))
    size = edges.size - 1
    weighted_sum, noise = np.zeros(size), np.zeros((size, size))
    for part, number in zip(parts, reports.tolist(), strict=True):
        _, weighted = _matrices(part.mechanism)
        counts = part.counts[row]
        projection = weighted @ counts
        weighted_sum += projection
        noise += (weighted * counts) @ weighted.T - np.outer(projection, projection) / number
    inverse = inverse / reports.sum()
    return Uncertainty.of_parts(edges, inverse @ weighted_sum, inverse @ noise @ inverse)


@lru_cache(maxsize=16)
def _inverse(mechanisms: tuple[Transition, ...], shares: tuple[float, ...]) -> FloatArray:
    """A⁻¹ of one report, which came through each of the mechanisms with the probability of its share."""
    information = sum(share * np.matmul(*_matrices(each)[::-1]) for each, share in zip(mechanisms, shares, strict=True))
    return np.linalg.pinv(information, rcond=SMALLEST_DIRECTION, hermitian=True)


@lru_cache(maxsize=16)
def _matrices(mechanism: Transition) -> tuple[FloatArray, FloatArray]:
    """M, from strips to cells, and MᵀD⁻¹."""
    bounds = strip_bounds(mechanism.buckets)
    widths = np.diff(bounds)
    strips = np.repeat(np.eye(widths.size) / widths[:, None], widths, axis=1)
    matrix = mechanism.forward(strips).T
    return matrix, matrix.T / (matrix @ (widths / mechanism.buckets))
