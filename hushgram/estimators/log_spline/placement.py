"""Where the features of a fit may be, and how wide: the reports tell their mass better than their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.log_spline import cholesky
from hushgram.estimators.log_spline.model import Feature
from hushgram.estimators.log_spline.posterior import Posterior

WIDTHS = (0.0, 1 / 256, 1 / 128, 1 / 64, 1 / 32)
"""The widths that a point mass or a hill may have, as shares of the domain, each as likely before the reports came."""
PLACES = 12
"""Places to either side of a feature that are looked at."""
LONGEST_STEP = 0.5
"""The most that the size of a feature changes with its place: a share of its mass, or the height of a jump in nats."""
NEGLIGIBLE = 1e-3
"""The probability of an outermost place below which no places beyond it are looked at."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The changes of the distribution if a feature is elsewhere or wider, one to a row, and their probabilities."""

    changes: FloatArray
    shares: FloatArray
    breaks: IntArray
    """Edges between buckets, counted from the low end, at which the distribution may jump."""


def find_placements(posterior: Posterior, counts: Sequence[FloatArray]) -> list[Placement]:
    """Of features inside the domain; those at its ends, where devices clip, are where they are."""
    model, last = posterior.model, posterior.model.basis.buckets - 1
    return [
        _placement(posterior, counts, index)
        for index, feature in enumerate(model.features)
        if feature.kind == "jump" or 0 < feature.bucket < last
    ]


def _placement(posterior: Posterior, counts: Sequence[FloatArray], index: int) -> Placement:
    """All places in reach being as likely before the reports came."""
    feature = posterior.model.features[index]
    buckets = posterior.model.basis.buckets
    step = 1
    while True:
        near = feature.bucket + step * np.arange(-PLACES, PLACES + 1)
        places = near[(near > 0) & (near < buckets)]
        alternatives = _alternatives(feature, places, buckets)
        changes, own = _changes(posterior, index, alternatives)
        gains = _adapt(posterior, counts, index, changes, own)
        shares = np.exp(gains - gains.max())
        shares /= shares.sum()
        outermost = np.isin([other.bucket for other in alternatives], places[[0, -1]])
        if shares[outermost].sum() < NEGLIGIBLE or 2 * step * PLACES > buckets // 8:
            break
        step *= 2
    likely = shares > NEGLIGIBLE
    kept = [other for other, keep in zip(alternatives, likely.tolist(), strict=True) if keep]
    edges = [edge for other in kept if other.kind != "hill" for edge in _edges(other)]
    return Placement(changes[likely], shares[likely] / shares[likely].sum(), np.unique(np.array(edges, dtype=np.int64)))


def _alternatives(feature: Feature, places: IntArray, buckets: int) -> list[Feature]:
    if feature.kind == "jump":
        return [Feature("jump", place) for place in places.tolist()]
    widths = [width * buckets for width in WIDTHS if not 0 < width * buckets < 1]
    return [Feature("hill" if width else "point", place, width) for width in widths for place in places.tolist()]


def _edges(feature: Feature) -> list[int]:
    return [feature.bucket, feature.bucket + 1] if feature.kind == "point" else [feature.bucket]


def _changes(posterior: Posterior, index: int, alternatives: Sequence[Feature]) -> tuple[FloatArray, FloatArray]:
    """The change of the distribution for each alternative, and its derivative by the alternative's own size.

    A jump moves as it is, and its size is its height; of a point mass or a hill, the mass above the curve moves.
    """
    model, x = posterior.model, posterior.x
    feature, height = model.features[index], float(posterior.a[model.basis.size + index])
    functions = np.array([other.function(x.size) for other in alternatives])
    if feature.kind == "jump":
        moved = x * np.exp(height * (functions - feature.function(x.size)))
        moved /= moved.sum(axis=1, keepdims=True)
        return moved - x, moved * (functions - np.einsum("ij,ij->i", moved, functions)[:, None])
    above = x * -np.expm1(-height * feature.function(x.size))
    shapes = functions / functions.sum(axis=1, keepdims=True)
    changes = above.sum() * shapes - above
    changes[[other == feature for other in alternatives]] = 0
    return changes, above.sum() * (shapes - x)


def _adapt(
    posterior: Posterior, counts: Sequence[FloatArray], index: int, changes: FloatArray, own: FloatArray
) -> FloatArray:
    """Lets each alternative's own size and all other coefficients follow, to first order, in place of what they were.

    Returns the gains of log-posterior. With W = N/y on the pools of cells, P the others' precision, A their derivatives
    of cells, c the cells' change and o their derivative by the own size, that size moves by
    (g - oᵀWc + oᵀWAP⁻¹AᵀWc)/(oᵀWo - oᵀWAP⁻¹AᵀWo), g being its derivative of the log-likelihood at the fit.
    """
    model, basis, x = posterior.model, posterior.model.basis, posterior.x
    sensitivity, y = model.sensitivity(x)
    reports = np.array([row.sum() for row in counts])
    weights = (reports[basis.mechanism_of_pool] / y)[:, None]
    others = np.delete(np.arange(model.size), basis.size + index)
    precision = posterior.information[np.ix_(others, others)] + np.diag(1 / posterior.deviations[others] ** 2)
    root = cholesky.factor(precision)
    moved, sized = (basis.pools(basis.forward(rows)).T for rows in (changes, own))
    pulls, shared = (sensitivity[:, others].T @ (weights * cells) for cells in (moved, sized))
    explained = cholesky.solve(root, shared)
    curvature = np.einsum("ij,ij->j", sized, weights * sized)
    slope = (
        own @ posterior.pull - np.einsum("ij,ij->j", sized, weights * moved) + np.einsum("ij,ij->j", explained, pulls)
    )
    left = np.maximum(curvature - np.einsum("ij,ij->j", explained, shared), 1e-3 * curvature)
    size = np.clip(slope / left, -LONGEST_STEP, LONGEST_STEP)
    followed = -cholesky.solve(root, pulls) - explained * size
    changes += own * size[:, None] + (model.slopes(x)[:, others] @ followed).T
    before, deviations = posterior.a[others, None], posterior.deviations[others, None]
    gains: FloatArray = 0.5 * ((before / deviations) ** 2 - ((before + followed) / deviations) ** 2).sum(axis=0)
    for row, cells, change in zip(counts, basis.forward(x), basis.forward(changes), strict=True):
        gains += np.log(np.maximum(1 + change / cells, 1e-9)) @ row
    return gains


def place(posterior: Posterior, placements: Sequence[Placement]) -> FloatArray:
    """The distribution, averaged over where features may be: a miss by one bucket would else move the distribution
    function by a whole point mass."""
    x = posterior.x + sum(placement.shares @ placement.changes for placement in placements)
    x = np.maximum(x, 0.0)
    return x / x.sum()


def place_rival(
    posterior: Posterior,
    placements: Sequence[Placement],
    rival: Posterior,
    share: float,
    counts: Sequence[FloatArray],
) -> Placement:
    """The rival fit as an alternative to the posterior, with the probability `share`."""
    own = find_placements(rival, counts)
    change = place(rival, own) - place(posterior, placements)
    breaks = np.unique(np.concatenate([placement.breaks for placement in own])) if own else np.zeros(0, dtype=np.int64)
    return Placement(np.stack([np.zeros_like(change), change]), np.array([1 - share, share]), breaks)
