"""Where a fit may lack a point mass, a hill or a jump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from hushgram._arrays import BoolArray, FloatArray, IntArray
from hushgram.estimators.log_spline import cholesky
from hushgram.estimators.log_spline.model import VARIANCES, Feature, Kind
from hushgram.estimators.log_spline.posterior import Posterior

SCORE, END_SCORE = 3.5, 2.5
"""The standardised score above which a feature is tried: inside the domain, and at its ends, where clipping puts it."""
GAIN, END_GAIN = 8.0, 3.0
"""The log-evidence that each feature must then gain."""
HILL_WIDTHS = (1 / 256, 1 / 64)
"""The widths of hills to try, as shares of the domain; hills of less than a bucket are not tried."""
AT_ONCE = 3
"""The most features to try together."""
PROMISING_GAIN, PROMISING_FREE_GAIN = 6.0, 3.0
"""The log-evidence, in the quadratic approximation, above which a jump is tried: with fixed hyperparameters, and with
free ones, which will then change in its favour."""
ROUNDING = 1e-12
"""A variance for each report that is far below any other, and far above rounding errors."""
ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Scores:
    """For each bucket, the derivative of the log-likelihood by a feature there, and its variance under the fit."""

    derivatives: FloatArray
    variances: FloatArray

    @property
    def standardised(self) -> FloatArray:
        return self.derivatives / np.sqrt(self.variances)


@dataclass(frozen=True)
class Candidates:
    """Features to try together, the heights to start from, and the log-evidence that each must gain."""

    features: list[Feature]
    heights: list[float]
    gain: float
    replaced: FloatArray | None = None
    """What the features take over from the coefficients of the basis."""

    @property
    def needed(self) -> float:
        return self.gain * len(self.features)


def score_point_masses(posterior: Posterior, reports: FloatArray) -> Scores:
    """The derivative by the mass of each bucket; its variance is that which the fit leaves to follow."""
    basis = posterior.model.basis
    change, y = posterior.model.sensitivity(posterior.x)
    weights = reports[basis.mechanism_of_pool] / y
    variances = basis.information_of_points(y, reports)
    shared = posterior.deviations[:, None] * (change.T @ (weights[:, None] * basis.matrix))
    explained = solve_triangular(posterior.root, shared, lower=True, check_finite=False)
    left = np.maximum(variances - (explained**2).sum(axis=0), 0.1 * variances)
    left = np.maximum(left, ROUNDING * reports.sum())  # it is zero where all values are in one bucket
    return Scores(posterior.pull, left[basis.part_of_bucket])


def gain_of_jumps(posterior: Posterior, before: IntArray | slice = ALL) -> tuple[FloatArray, FloatArray]:
    """For a jump before each bucket, or before some, the log-evidence that it gains in the quadratic approximation, and
    its height.

    The functions of the basis follow a jump with coefficients c, so that one of variance v adds vccᵀ to their prior
    covariance S. With F the information, m the mode and K = (F⁻¹ + S)⁻¹, its height is v·cᵀS⁻¹m/(1 + v·cᵀKc).
    """
    basis, inverse = posterior.model.basis, 1 / posterior.deviations
    effect = np.eye(posterior.a.size) - cholesky.inverse(posterior.root)
    weights = (inverse[:, None] * effect * inverse)[: basis.size, : basis.size]
    steps, variance = basis.step_coefficients[:, before], VARIANCES["jump"]
    spread = 1 + variance * np.einsum("ij,ij->j", steps, weights @ steps)
    pull = steps.T @ (posterior.a * inverse**2)[: basis.size]
    return 0.5 * (variance * pull**2 / spread - np.log(spread)), variance * pull / spread


def find_ends(scores: FloatArray) -> list[int]:
    """The ends of the domain, where one of them stands out."""
    ends = [bucket for bucket in (0, scores.size - 1) if scores[bucket] > END_SCORE]
    return ends if ends and scores.max() <= 2 * scores[ends].max() else []


def find_highest(scores: FloatArray, least: float) -> list[int]:
    """The highest scores, some distance apart."""
    found, left, reach = list[int](), scores.copy(), scores.size // 16
    while len(found) < AT_ONCE:
        bucket = int(np.argmax(left))
        if left[bucket] < max(least, 0.7 * scores.max()):
            break
        found.append(bucket)
        left[max(0, bucket - reach) : bucket + reach + 1] = 0
    return found


def candidates(
    posterior: Posterior, reports: FloatArray, refused: Mapping[Kind, BoolArray], *, free: bool
) -> list[Candidates]:
    """What to try next: point masses and hills where mass is missing, and jumps where the curve bends too little."""
    model, buckets = posterior.model, posterior.model.basis.buckets
    basis = model.basis
    points = score_point_masses(posterior, reports)
    scores = np.where(refused["point"], 0.0, points.standardised)
    scores[model.spike_buckets] = 0
    ends = find_ends(scores)
    if ends:
        return [_points(posterior, points, ends, 0.0, END_GAIN)]
    found = []
    if places := find_highest(scores, SCORE):
        widths = [0.0, *(share * buckets for share in HILL_WIDTHS if share * buckets >= 1)]
        found += [_points(posterior, points, places, width, GAIN) for width in widths]
    gains, heights = gain_of_jumps(posterior)
    gains[refused["jump"]] = 0
    for feature in model.wide_features:
        gains[near(feature, buckets)] = 0
    places = find_highest(gains, PROMISING_FREE_GAIN if free else PROMISING_GAIN)
    if places:
        jumps = [Feature("jump", place) for place in places]
        found.append(
            Candidates(jumps, heights[places].tolist(), GAIN, basis.step_coefficients[:, places] @ heights[places])
        )
    return found


def near(feature: Feature, buckets: int) -> slice:
    """The buckets in which another feature would be much the same."""
    reach = max(2, buckets // 128)
    return slice(max(0, feature.bucket - reach), feature.bucket + reach + 1)


def _points(posterior: Posterior, scores: Scores, places: list[int], width: float, gain: float) -> Candidates:
    mass = np.clip(scores.derivatives[places] / scores.variances[places], 1e-4, 0.5)
    heights = np.log1p(mass / np.maximum(posterior.x[places] * max(1.0, 2 * width), 1e-12))
    features = [Feature("hill" if width else "point", place, width) for place in places]
    return Candidates(features, heights.tolist(), gain)
