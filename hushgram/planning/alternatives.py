"""Alternatives to a collection: other ε, bucket counts, estimators and mechanisms."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from hushgram._validation import GREATEST_EPSILON, LEAST_EPSILON, CollectionError
from hushgram.collection import Collection
from hushgram.estimators.log_spline import LEAST_BUCKETS
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.mechanisms import MECHANISMS, SeededHashing
from hushgram.mechanisms.hierarchy import BRANCHINGS, Hierarchy

FEWEST_BUCKETS, MOST_BUCKETS = 16, 2048
"""Limits of the bucket counts to try; more are slow, and finer than the noise."""
BINS = (16, 32, 64)

Kind = Literal["now", "epsilon", "buckets", "estimator", "widths", "mechanism"]


@dataclass(frozen=True)
class Alternative:
    """A collection, and in what it differs from the one that is planned.

    With other widths, the estimator may be another too.
    """

    kind: Kind
    collection: Collection


def make_plannable(collection: Collection) -> Collection:
    """The collection without its past and its groups; reports of seeded hashes are simulated as those of linear ones.

    Their support has the same law but for a prime number of symbols, and no histogram to draw.
    """
    plain = replace(collection, previous=(), groups=(), device=None)  # a budget need not allow the ε that is tried
    if not isinstance(plain.mechanism, SeededHashing):
        return plain
    return _changed(plain, mechanism="local_hashing", bins=plain.mechanism.bins)


def alternatives(collection: Collection) -> list[Alternative]:
    """The collection itself, first, and the possible ones near it; `width_alternatives` follow when these are tried."""
    changed: list[tuple[Kind, dict[str, Any]]] = [
        *(("epsilon", {"epsilon": epsilon}) for epsilon in _epsilons(collection)),
        *(("buckets", {"buckets": buckets}) for buckets in _bucket_counts(collection)),
        *(("estimator", {"estimator": estimator}) for estimator in _estimators(collection)),
        *(("mechanism", changes) for changes in _mechanisms(collection)),
    ]
    return possible_changes(collection, changed)


def possible_changes(collection: Collection, changed: Iterable[tuple[Kind, dict[str, Any]]]) -> list[Alternative]:
    """The collection itself, first, and each that a change of parameters makes of it, once."""
    found = [Alternative("now", collection)]
    for kind, changes in changed:
        try:
            other = _changed(collection, **changes)
        except CollectionError:
            continue  # not every mechanism fits every domain
        if all(other != known.collection for known in found):
            found.append(Alternative(kind, other))
    return found


def _changed(collection: Collection, **changes: Any) -> Collection:
    """With another mechanism, the estimator is left to that mechanism; with another estimator, so are its options."""
    mechanism = changes.pop("mechanism", collection.mechanism.name)
    if mechanism != collection.mechanism.name:
        changes = {"estimator": "", "mechanism": mechanism, **changes}
    if "estimator" in changes:
        changes = {**dict.fromkeys(METHOD_OPTIONS), **changes}
    return replace(collection, **changes)


def _epsilons(collection: Collection) -> list[float]:
    near = [min(max(collection.epsilon * factor, LEAST_EPSILON), GREATEST_EPSILON) for factor in (0.5, 2)]
    return [epsilon for epsilon in near if epsilon != collection.epsilon]


def _bucket_counts(collection: Collection) -> list[int]:
    mechanism = collection.mechanism
    if mechanism.mean_only or mechanism.buckets != collection.buckets:
        return []  # buckets are then only the resolution of the result, and do not change its error
    factor = 8 if isinstance(mechanism, Hierarchy) and mechanism.branching == 8 else 4
    wanted = [collection.buckets / factor, collection.buckets * factor]
    counts = [_fitting(collection, count) for count in wanted if FEWEST_BUCKETS <= count <= MOST_BUCKETS]
    return [count for count in counts if not 2 / 3 < count / collection.buckets < 3 / 2]


def _fitting(collection: Collection, wanted: float) -> int:
    """Whole numbers must be shared out evenly: the divisor of their number that is nearest."""
    if not collection.integer:
        return round(wanted)
    size = int(collection.high - collection.low) + 1
    divisors = [count for count in range(2, min(size, MOST_BUCKETS) + 1) if size % count == 0]
    return min(divisors, key=lambda count: abs(math.log(count / wanted)), default=collection.buckets)


def _estimators(collection: Collection) -> list[str]:
    """Of a wave: the log-spline beside EM and EMS, and EMS beside it."""
    if "log_spline" not in collection.mechanism.estimators or collection.buckets < LEAST_BUCKETS:
        return []
    return ["ems" if collection.estimator == "log_spline" else "log_spline"]


def _mechanisms(collection: Collection) -> list[dict[str, Any]]:
    if collection.mechanism.mean_only:
        means = [name for name, kind in MECHANISMS.items() if kind.mean_only]
        return [{"mechanism": name} for name in (*means, "square_wave")]
    trees = [
        {"mechanism": "hierarchy", "buckets": branching**height, "branching": branching}
        for branching in BRANCHINGS
        for height in range(1, 17)
        if FEWEST_BUCKETS <= branching**height <= MOST_BUCKETS and _possible(collection, branching**height)
    ]
    # The nearest count, and among equals the branching of four that the paper recommends.
    trees.sort(key=lambda tree: (abs(math.log(tree["buckets"] / collection.buckets)), abs(tree["branching"] - 4)))
    # The oracle with less noise (paper, section 2.1).
    binned = [
        {
            "mechanism": "randomized_response" if bins - 2 < 3 * math.exp(collection.epsilon) else "local_hashing",
            "bins": bins,
        }
        for bins in dict.fromkeys(_fitting(collection, bins) for bins in BINS)
        if bins < collection.buckets
    ]
    return [{"mechanism": "square_wave"}, *trees[:1], *binned]


def _possible(collection: Collection, buckets: int) -> bool:
    return not collection.integer or (int(collection.high - collection.low) + 1) % buckets == 0
