"""Recognises the mechanism behind a revision, where results are at hand but the definition of their collection is not.

A revision is a hash, from which nothing can be read back. But results know the domain and the number of buckets, and
what else devices need is mostly as usual: a round ε, and a mechanism with its default options. The revisions of these
are computed; an equal one is proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from hushgram._validation import CollectionError
from hushgram.collection import Collection
from hushgram.domain import Domain
from hushgram.mechanisms import MECHANISMS
from hushgram.revisions import EPSILONS


def recognise(
    name: str, domain: Domain, buckets: int, revisions: Iterable[str], epsilons: Iterable[float] = ()
) -> Collection | None:
    """A collection that takes reports of these revisions, of as many as are recognised; None if it is none of them.

    `epsilons` are tried before the usual ones.

    >>> commute = Collection(name="commute", low=0, high=180, epsilon=2.0, previous=[{"epsilon": 1.0}])
    >>> again = recognise("commute", commute.domain, commute.buckets, [*commute.revisions, "0123456789abcdef"])
    >>> again == commute
    True
    """
    known = _usual(domain, buckets, tuple(epsilons))
    recognised = [known[revision] for revision in dict.fromkeys(revisions) if revision in known]
    if not recognised:
        return None
    current, *earlier = recognised
    collection = Collection(name=name, buckets=buckets, **asdict(domain), **current)
    for parameters in earlier:
        different = {key: value for key, value in parameters.items() if value != current[key]}
        try:
            collection = replace(collection, previous=(*collection.previous, different))
        except CollectionError:  # of a kind that cannot be in one window with the others
            continue
    return collection


@lru_cache(maxsize=64)
def _usual(domain: Domain, buckets: int, epsilons: tuple[float, ...]) -> Mapping[str, Mapping[str, Any]]:
    """The parameters of devices by their revision."""
    found: dict[str, Mapping[str, Any]] = {}
    for parameters in _parameters(epsilons):
        try:
            collection = Collection(name="recognition", buckets=buckets, **asdict(domain), **parameters)
        except CollectionError:  # not every mechanism takes every domain
            continue
        found.setdefault(collection.revision, parameters)
    return MappingProxyType(found)


def _parameters(epsilons: tuple[float, ...]) -> Iterator[dict[str, Any]]:
    for mechanism in MECHANISMS:
        for epsilon in (*epsilons, *EPSILONS):
            yield {"epsilon": epsilon, "mechanism": mechanism}
