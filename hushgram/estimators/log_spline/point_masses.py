"""Where the point masses of a fit may be: the reports tell their mass better than their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.estimators.log_spline.basis import Basis
from hushgram.estimators.log_spline.posterior import Posterior

FIRST_REACH = 12
"""Buckets to either side of a point mass that are looked at first."""
NEGLIGIBLE = 1e-3
"""The probability of a place below which places beyond it are not looked at."""


@dataclass(frozen=True, eq=False)
class PointMass:
    """A mass above the smooth curve, and the probability of each bucket, from `first` on, to be its place."""

    bucket: int
    mass: float
    first: int
    shares: FloatArray

    def spread(self, x: FloatArray) -> FloatArray:
        """Moves the mass, in place, to where it may be; returns the probability of each bucket to be its place."""
        law = np.zeros(x.size)
        law[self.first : self.first + self.shares.size] = self.shares
        x[self.bucket] -= self.mass
        x += self.mass * law
        return law


def find_places(posterior: Posterior, counts: Sequence[FloatArray]) -> list[PointMass]:
    """The point masses inside the domain; those at its ends, where devices clip, are where they are."""
    model, basis = posterior.model, posterior.model.basis
    cells = basis.forward(posterior.x)
    points = []
    for bucket, height in zip(model.spike_buckets, posterior.a[model.wide :].tolist(), strict=True):
        if 0 < bucket < basis.buckets - 1 and height > 0:
            mass = float(posterior.x[bucket] * -math.expm1(-height))
            points.append(_point_mass(basis, counts, cells, bucket, mass))
    return points


def _point_mass(
    basis: Basis, counts: Sequence[FloatArray], cells: Sequence[FloatArray], bucket: int, mass: float
) -> PointMass:
    """All places being as likely before the reports came."""
    reach = FIRST_REACH
    while True:
        first, last = max(0, bucket - reach), min(basis.buckets, bucket + reach + 1)
        moves = np.zeros((last - first, basis.buckets))
        moves[np.arange(last - first), np.arange(first, last)] = 1
        moves[:, bucket] -= 1
        gains = np.zeros(last - first)
        for row, y, moved in zip(counts, cells, basis.forward(moves), strict=True):
            gains += np.log(np.maximum(1 + mass * moved / y, 1e-9)) @ row
        shares = np.exp(gains - gains.max())
        shares /= shares.sum()
        if (shares[[0, -1]] < NEGLIGIBLE).all() or reach >= basis.buckets // 8:
            return PointMass(bucket, mass, first, shares)
        reach *= 2


def spread_points(posterior: Posterior, points: Sequence[PointMass]) -> FloatArray:
    """The distribution with each point mass shared among its places: a miss by one bucket would else move the
    distribution function by the whole mass."""
    x = posterior.x.copy()
    for point in points:
        point.spread(x)
    return x
