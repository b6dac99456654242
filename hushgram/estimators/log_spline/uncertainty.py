"""The law of the error of a log-spline estimate: from it come intervals of the mean, of quantiles and of the curve."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular
from scipy.ndimage import maximum_filter1d

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.log_spline.placement import Placement
from hushgram.estimators.log_spline.posterior import Posterior, factorise, posterior_mean
from hushgram.estimators.types import Uncertainty

SCATTER = 1.0
"""Buckets scatter around the curve by this relative standard deviation, as counts of people's round numbers do."""
JUMPS = 5.0
"""The variance, over the squared frequency, that modes have beyond the estimate's own prior. A curve that jumps has
such a spectrum: 1 stands for a few jumps by a nat, and 5 for several by one or two."""
BIAS = 2.0
"""What the prior moved the distribution function by, this many times, is one standard deviation of bias."""
BIAS_REACH = 0.04
"""How far along the domain, as a share of it, the allowance for bias is carried."""
SHARPEST = 0.1
"""A share of values is known to within this part of its standard error without smoothing, at best, all others known."""


def error_law(posterior: Posterior, placements: Sequence[Placement], reports: FloatArray) -> Uncertainty:
    """The posterior under a rougher prior than the estimate's, so that it covers curves that the estimate smooths over.

    One window cannot tell how rough the truth is below what its reports resolve, so roughness is assumed: `JUMPS` and
    `SCATTER` in the basis, and what the basis does not resolve of the scatter as independent errors of the distribution
    function at each edge. Everything is linear in the coefficients, around the estimate, where the information was
    computed: with another point's slopes, the mean would seem less sure than it is. Where a feature may be elsewhere,
    its place has an error, too. In an empty tail the errors of a density that is linear in the coefficients are a share
    of far too little, so that what `reports` of each mechanism tell of a range sets a limit.
    """
    model, basis = posterior.model, posterior.model.basis
    roughness = SCATTER**2 / basis.buckets + JUMPS * np.exp(-2 * basis.log_frequency)
    deviations = model.prior_deviations(posterior.hyper, roughness)
    root = factorise(posterior.information, deviations)
    step = posterior_mean(root, deviations, posterior.target) - posterior.a
    slopes = model.slopes(posterior.x)
    centre = posterior.x + slopes @ step
    starts = _starts(posterior, placements)
    ends = starts[1:] - 1
    # Of the distribution function at inner edges: columns whose outer products add up to its covariance.
    parts = np.cumsum(np.add.reduceat(slopes, starts, axis=0)[:-1], axis=0) * deviations
    columns = [solve_triangular(root, parts.T, lower=True, check_finite=False).T]
    for placement in placements:
        average = placement.shares @ placement.changes
        centre = centre + average
        moved = np.cumsum(placement.changes - average, axis=1)[:, ends]
        columns.append((np.sqrt(placement.shares)[:, None] * moved).T)
    moved, free = _bias(posterior, ends)
    inside = np.column_stack([*columns, moved])
    factor = np.zeros((starts.size + 1, inside.shape[1]))  # there is no error at the domain's own ends
    factor[1:-1] = inside
    covariance: FloatArray = factor @ factor.T
    inner = covariance[1:-1, 1:-1]
    nearby = _nearness(tuple(starts[1:].tolist()), basis.buckets) * free
    nearby *= free[:, None]
    inner += nearby
    smooth = posterior.x.copy()
    smooth[model.spike_buckets] *= np.exp(-np.maximum(posterior.a[model.wide :], 0.0))
    beside = (smooth[ends] ** 2 + smooth[starts[1:]] ** 2) / 2
    inner[np.diag_indices(ends.size)] += SCATTER**2 * beside * basis.unresolved[starts[1:]]
    sizes = np.diff(starts, append=basis.buckets)
    scatter = SCATTER**2 * np.where(sizes > 1, np.add.reduceat(smooth, starts) ** 2 / sizes, 0.0)
    edges = np.append(starts, basis.buckets) / basis.buckets
    information = basis.information_of_points(basis.pools(basis.forward(posterior.x)), reports)
    least = SHARPEST / np.sqrt(np.maximum(information, 0.0) + 1)  # which is none where all values are in one place
    least = least[basis.part_of_bucket[starts]]
    return Uncertainty(edges, np.add.reduceat(centre, starts), covariance, scatter, least)


def _starts(posterior: Posterior, placements: Sequence[Placement]) -> IntArray:
    """Where parts of the domain start, in buckets: among others, wherever the distribution may jump."""
    basis = posterior.model.basis
    if not posterior.model.spikes and not placements:
        return basis.part_starts
    ends = np.array([1, basis.buckets - 1]) if posterior.model.spikes else np.array([], dtype=np.int64)
    starts = np.unique(np.concatenate([basis.part_starts, ends, *(placement.breaks for placement in placements)]))
    return starts[starts < basis.buckets]


def _bias(posterior: Posterior, ends: IntArray) -> tuple[FloatArray, FloatArray]:
    """What stands for the bias of smoothing in the distribution function after some buckets: how far the prior moved it
    there, and how far it may have been moved beside that, by errors that go together over a short reach.

    The prior moved it by (F + S⁻¹)⁻¹S⁻¹a, to first order. Where that happens to cross zero the true bias need not, so
    that it varies up to the greatest that is near.
    """
    model, buckets = posterior.model, posterior.model.basis.buckets
    pulled = posterior_mean(posterior.root, posterior.deviations, posterior.a / posterior.deviations**2)
    drift = model.log_density(pulled)
    moved = BIAS * np.cumsum(posterior.x * (drift - posterior.x @ drift))
    greatest = maximum_filter1d(np.abs(moved), 2 * round(BIAS_REACH * buckets) + 1, mode="nearest")
    moved, greatest = moved[ends], greatest[ends]
    return moved, np.sqrt(np.maximum(greatest**2 - moved**2, 0.0))


@lru_cache(maxsize=8)
def _nearness(places: tuple[int, ...], buckets: int) -> FloatArray:
    """How far biases at places of the domain, in buckets, go together: nearly all windows have the same places."""
    distance = np.subtract.outer(places, places) / (BIAS_REACH * buckets)
    return np.exp(-0.5 * distance**2)
