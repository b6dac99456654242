"""Mechanisms by name: what a collection may ask for, which options each reads, which estimators understand it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hushgram.mechanisms.base import FrequencyOracle, Mechanism, Transition
from hushgram.mechanisms.general_wave import GeneralWave
from hushgram.mechanisms.haar import HaarResponse
from hushgram.mechanisms.hashing import LocalHashing, SeededHashing, frequency_oracle
from hushgram.mechanisms.hierarchy import Hierarchy
from hushgram.mechanisms.moments import Piecewise, StochasticRounding
from hushgram.mechanisms.response import RandomizedResponse
from hushgram.mechanisms.wave import SquareWave, best_bandwidth

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """What a collection may say about its mechanism; each mechanism reads some of it."""

    buckets: int
    epsilon: float
    bandwidth: float | None = None
    output_buckets: int | None = None
    wave_ratio: float | None = None
    symbols: int | None = None
    bins: int | None = None
    branching: int | None = None
    level_decay: float | None = None


@dataclass(frozen=True)
class Kind:
    """A mechanism's constructor, the estimators that understand its tallies (the default first), its options."""

    build: Callable[[Options], Mechanism]
    estimators: tuple[str, ...]
    options: tuple[str, ...] = ()


MECHANISMS: dict[str, Kind] = {
    "square_wave": Kind(
        lambda o: SquareWave(o.buckets, o.epsilon, o.bandwidth),
        ("ems", "em"),
        ("bandwidth",),
    ),
    "square_wave_continuous": Kind(
        lambda o: GeneralWave(o.buckets, o.epsilon, 1.0, o.bandwidth, o.output_buckets),
        ("ems", "em"),
        ("bandwidth", "output_buckets"),
    ),
    "general_wave": Kind(
        lambda o: GeneralWave(o.buckets, o.epsilon, _or(o.wave_ratio, 0.6), o.bandwidth, o.output_buckets),
        ("ems", "em"),
        ("bandwidth", "output_buckets", "wave_ratio"),
    ),
    "randomized_response": Kind(
        lambda o: RandomizedResponse(_or(o.bins, o.buckets), o.epsilon),
        ("norm_sub",),
        ("bins",),
    ),
    "local_hashing": Kind(
        lambda o: LocalHashing(_or(o.bins, o.buckets), o.epsilon, o.symbols),
        ("norm_sub",),
        ("bins", "symbols"),
    ),
    "seeded_hashing": Kind(
        lambda o: SeededHashing(_or(o.bins, o.buckets), o.epsilon, o.symbols),
        ("norm_sub",),
        ("bins", "symbols"),
    ),
    "hierarchy": Kind(
        lambda o: Hierarchy(o.buckets, o.epsilon, _or(o.branching, 4), _or(o.level_decay, 1.0)),
        ("hh_admm", "hh"),
        ("branching", "level_decay"),
    ),
    "haar": Kind(lambda o: HaarResponse(o.buckets, o.epsilon), ("haar",)),
    "stochastic_rounding": Kind(lambda o: StochasticRounding(o.buckets, o.epsilon), ("mean",)),
    "piecewise": Kind(
        lambda o: Piecewise(o.buckets, o.epsilon, _or(o.output_buckets, 1024)),
        ("mean",),
        ("output_buckets",),
    ),
}


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


__all__ = [
    "MECHANISMS",
    "FrequencyOracle",
    "GeneralWave",
    "HaarResponse",
    "Hierarchy",
    "Kind",
    "LocalHashing",
    "Mechanism",
    "Options",
    "Piecewise",
    "RandomizedResponse",
    "SeededHashing",
    "SquareWave",
    "StochasticRounding",
    "Transition",
    "best_bandwidth",
    "frequency_oracle",
]
