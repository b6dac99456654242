"""Alternatives to a collection: other ε, bucket counts and mechanisms, and which of them is worth the change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hushgram._validation import GREATEST_EPSILON, LEAST_EPSILON, CollectionError
from hushgram.collection import Collection
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.mechanisms import MECHANISMS, SeededHashing
from hushgram.mechanisms.hierarchy import BRANCHINGS, Hierarchy
from hushgram.planning.expected_error import Outlook
from hushgram.simulation import Summary

FEWEST_BUCKETS, MOST_BUCKETS = 16, 2048
"""Limits of the bucket counts to try; more are slow, and finer than the noise."""
BINS = (16, 32, 64)
BEYOND_NOISE = 3.0
"""Standard errors by which a difference must exceed the noise of the simulation: once in 700 comparisons by chance."""
WORTH_A_CHANGE = 0.05
"""The least gain that is worth a recommendation, as a share."""

Kind = Literal["now", "epsilon", "buckets", "mechanism"]


@dataclass(frozen=True)
class Alternative:
    """A collection, and in what it differs from the one that is planned."""

    kind: Kind
    collection: Collection


def make_plannable(collection: Collection) -> Collection:
    """The collection without its past and its groups; reports of seeded hashes are simulated as those of linear ones.

    Their support has the same law but for a prime number of symbols, and no histogram to draw.
    """
    plain = replace(collection, previous=(), groups=())
    if not isinstance(plain.mechanism, SeededHashing):
        return plain
    return _changed(plain, mechanism="local_hashing", bins=plain.mechanism.bins)


def alternatives(collection: Collection) -> list[Alternative]:
    """The collection itself, first, and the possible ones near it."""
    found = [Alternative("now", collection)]
    changed: list[tuple[Kind, dict[str, Any]]] = [
        *(("epsilon", {"epsilon": epsilon}) for epsilon in _epsilons(collection)),
        *(("buckets", {"buckets": buckets}) for buckets in _bucket_counts(collection)),
        *(("mechanism", changes) for changes in _mechanisms(collection)),
    ]
    for kind, changes in changed:
        try:
            other = _changed(collection, **changes)
        except CollectionError:
            continue  # not every mechanism fits every domain
        if all(other != known.collection for known in found):
            found.append(Alternative(kind, other))
    return found


def _changed(collection: Collection, **changes: Any) -> Collection:
    """With another mechanism, the estimator and its options are left to that mechanism."""
    mechanism = changes.pop("mechanism", collection.mechanism.name)
    if mechanism != collection.mechanism.name:
        changes = {**dict.fromkeys(METHOD_OPTIONS), "estimator": "", "mechanism": mechanism, **changes}
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


@dataclass(frozen=True)
class Advice:
    """The recommended collection, which may be the present one, and the figure that both are judged by."""

    choice: Alternative
    figure: str
    now: Summary
    then: Summary
    as_good: Alternative | None
    """Fewer buckets that do no worse: they cost less to estimate."""

    @property
    def gain(self) -> float:
        """The relative reduction of the expected error."""
        return 1 - self.then.mean / self.now.mean


def advise(tried: Sequence[tuple[Alternative, Outlook]]) -> Advice:
    """The best at the same ε, if it is better than the first by more than the noise of the simulation.

    ε is a promise to people, not a setting: it is never advised, only shown.
    """
    (present, first), *others = tried
    figure = "w1" if "w1" in first.figures else "mean"
    now = first.mean(figure)
    rivals = [(other, seen.mean(figure)) for other, seen in others if other.kind in ("buckets", "mechanism")]
    better = [(other, then) for other, then in rivals if then.mean < now.mean and differs(then, now)]
    choice, then = min(better, key=lambda item: item[1].mean, default=(present, now))
    fewer = [
        other
        for other, seen in rivals
        if other.kind == "buckets"
        and other.collection.buckets < present.collection.buckets
        and seen.mean <= (1 + WORTH_A_CHANGE / 2) * now.mean
    ]
    return Advice(choice, figure, now, then, fewer[0] if fewer and choice is present else None)


def differs(then: Summary, now: Summary) -> bool:
    """Whether two figures differ by a relevant amount, and beyond the noise of the simulation."""
    apart = abs(now.mean - then.mean)
    return apart > WORTH_A_CHANGE * now.mean and apart > BEYOND_NOISE * math.hypot(now.error, then.error)
