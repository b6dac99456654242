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
        changes = _changes(posterior, index, alternatives)
        gains = _adapt(posterior, counts, index, changes)
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


def _changes(posterior: Posterior, index: int, alternatives: Sequence[Feature]) -> FloatArray:
    """A jump moves as it is; of a point mass or a hill, its mass above the curve moves."""
    model, x = posterior.model, posterior.x
    feature, height = model.features[index], float(posterior.a[model.basis.size + index])
    functions = np.array([other.function(x.size) for other in alternatives])
    if feature.kind == "jump":
        moved = x * np.exp(height * (functions - feature.function(x.size)))
        return moved / moved.sum(axis=1, keepdims=True) - x
    above = x * -np.expm1(-height * feature.function(x.size))
    moved = above.sum() * functions / functions.sum(axis=1, keepdims=True) - above
    moved[[other == feature for other in alternatives]] = 0
    return moved


def _adapt(posterior: Posterior, counts: Sequence[FloatArray], index: int, changes: FloatArray) -> FloatArray:
    """Lets the other coefficients follow each change, to first order, in place; returns the gains of log-posterior."""
    model, basis, x = posterior.model, posterior.model.basis, posterior.x
    sensitivity, y = model.sensitivity(x)
    reports = np.array([row.sum() for row in counts])
    others = np.delete(np.arange(model.size), basis.size + index)
    weighted = (reports[basis.mechanism_of_pool] / y)[:, None] * basis.pools(basis.forward(changes)).T
    precision = posterior.information[np.ix_(others, others)] + np.diag(1 / posterior.deviations[others] ** 2)
    pulls = sensitivity[:, others].T @ weighted
    followed = -cholesky.solve(cholesky.factor(precision), pulls)
    changes += (model.slopes(x)[:, others] @ followed).T
    before, deviations = posterior.a[others, None], posterior.deviations[others, None]
    gains = 0.5 * ((before / deviations) ** 2 - ((before + followed) / deviations) ** 2).sum(axis=0)
    for row, cells, moved in zip(counts, basis.forward(x), basis.forward(changes), strict=True):
        gains += np.log(np.maximum(1 + moved / cells, 1e-9)) @ row
    return gains


def place(posterior: Posterior, placements: Sequence[Placement]) -> FloatArray:
    """The distribution, averaged over where features may be: a miss by one bucket would else move the distribution
    function by a whole point mass."""
    x = posterior.x + sum(placement.shares @ placement.changes for placement in placements)
    x = np.maximum(x, 0.0)
    return x / x.sum()


def compare(
    posterior: Posterior,
    placements: Sequence[Placement],
    rival: Posterior,
    share: float,
    counts: Sequence[FloatArray],
) -> Placement:
    """The rival as a change that has this probability."""
    own = find_placements(rival, counts)
    change = place(rival, own) - place(posterior, placements)
    breaks = np.unique(np.concatenate([placement.breaks for placement in own])) if own else np.zeros(0, dtype=np.int64)
    return Placement(np.stack([np.zeros_like(change), change]), np.array([1 - share, share]), breaks)
