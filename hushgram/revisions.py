"""Explains an unknown revision: which parameters its devices may have used, and how to accept their reports.

A revision is a hash, from which nothing can be read back. But the parameters that people change are few, and change one
at a time: the revisions that a collection would have with one of them different are computed, and recognised.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from hushgram._validation import CollectionError
from hushgram.collection import Collection
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.mechanisms import MECHANISMS, options_of

EPSILONS = (*(tenth / 10 for tenth in range(1, 31)), 0.25, 0.75, 1.25, 3.5, *map(float, range(4, 11)))
BUCKETS = (10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000, 1024, 2000, 2048, 4096)
UNIT_FACTORS = (60, 100, 1000, 3600)
"""Factors between units that are taken for one another, such as seconds, minutes, hours and milliseconds."""


def explain_unknown(collection: Collection, revision: str, others: Iterable[Collection] = ()) -> str:
    """One line about a revision that the collection does not accept: its likely parameters, and what to do.

    >>> commute = Collection(name="commute", low=0, high=180, epsilon=1.0)
    >>> print(explain_unknown(commute, replace(commute, epsilon=2.0).revision))
    that of epsilon: 2.0; to accept it, list it as previous: [{epsilon: 2.0}] (accepted now: bee7fcbcb7cce993)
    """
    for other in others:
        if revision in other.revisions:
            return f"that of the collection {other.name!r}; let devices send that name with these parameters"
    accepted = f"(accepted now: {', '.join(collection.revisions)})"
    known = nearby_revisions(collection).get(revision)
    if known is None:
        return (
            "the device used another domain, epsilon, mechanism, number of buckets or option; "
            f"list parameters of earlier clients under `previous`, such as previous: [{{epsilon: 2.0}}] {accepted}"
        )
    used = ", ".join(f"{name}: {_in_yaml(value)}" for name, value in known.difference.items())
    if known.acceptable:
        return f"that of {used}; to accept it, list it as previous: [{{{used}}}] {accepted}"
    return f"that of {used}, which `previous` cannot hold; give it a collection of its own {accepted}"


@dataclass(frozen=True)
class Nearby:
    """A difference from a collection, and whether the collection would accept it under `previous`."""

    difference: Mapping[str, Any]
    acceptable: bool


@lru_cache(maxsize=256)
def nearby_revisions(collection: Collection) -> Mapping[str, Nearby]:
    """The revisions that the collection would have if it differed a little, with what would be different."""
    found: dict[str, Nearby] = {}
    for difference in _differences(collection):
        try:
            _, revision = replace(collection, previous=(difference,)).revisions
            found.setdefault(revision, Nearby(difference, acceptable=True))
        except CollectionError:
            try:
                revision = replace(collection, **difference, **PLAIN).revision
            except CollectionError:  # not every difference is possible
                continue
            found.setdefault(revision, Nearby(difference, acceptable=False))
    return MappingProxyType(
        {revision: near for revision, near in found.items() if revision not in collection.revisions}
    )


PLAIN: dict[str, Any] = {**dict.fromkeys(METHOD_OPTIONS), "estimator": "", "groups": (), "previous": (), "device": None}
"""What no revision depends on, and what might not fit another mechanism."""


def _differences(collection: Collection) -> Iterator[dict[str, Any]]:
    for epsilon in (*EPSILONS, collection.epsilon / 2, 2 * collection.epsilon):
        yield {"epsilon": epsilon}
    for buckets in (*BUCKETS, collection.buckets // 2, 2 * collection.buckets):
        yield {"buckets": buckets}
    for name, option in options_of(type(collection.mechanism)).items():
        if getattr(collection.mechanism, name) != option.default:
            yield {name: None}
    for mechanism in MECHANISMS:
        yield {"mechanism": mechanism}
    for factor in UNIT_FACTORS:
        yield {"low": collection.low * factor, "high": collection.high * factor}
        yield {"low": collection.low / factor, "high": collection.high / factor}
    yield {"scale": "linear" if collection.scale == "log" else "log"}
    yield {"integer": not collection.integer}


def _in_yaml(value: object) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value)
