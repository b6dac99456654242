"""Mechanisms by name, as collections use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hushgram._validation import MOST_BUCKETS, CollectionError, check_one_of, refuse
from hushgram.mechanisms.base import FrequencyOracle, Mechanism, Transition
from hushgram.mechanisms.general_wave import ContinuousSquareWave, GeneralWave
from hushgram.mechanisms.haar import HaarResponse
from hushgram.mechanisms.hashing import LocalHashing, SeededHashing, frequency_oracle
from hushgram.mechanisms.hierarchy import Hierarchy
from hushgram.mechanisms.mean_only import Piecewise, StochasticRounding
from hushgram.mechanisms.options import Option, options_of
from hushgram.mechanisms.randomized_response import RandomizedResponse
from hushgram.mechanisms.square_wave import SquareWave, best_bandwidth

MECHANISMS: dict[str, type[Mechanism]] = {
    kind.name: kind
    for kind in (
        SquareWave,
        ContinuousSquareWave,
        GeneralWave,
        RandomizedResponse,
        LocalHashing,
        SeededHashing,
        Hierarchy,
        HaarResponse,
        StochasticRounding,
        Piecewise,
    )
}


def mechanism_options() -> dict[str, Option]:
    """The options of all mechanisms, by name.

    >>> ", ".join(mechanism_options())
    'bandwidth, widths, output_buckets, wave_ratio, bins, symbols, branching, level_decay'
    """
    found: dict[str, Option] = {}
    for kind in MECHANISMS.values():
        for name, option in options_of(kind).items():
            found.setdefault(name, option)
    return found


def make_mechanism(mechanism: object, options: Mapping[str, Any], buckets: int = MOST_BUCKETS) -> Mechanism:
    """A mechanism from its name or value, with options; an option of None takes its default.

    An option may stand in the mechanism's value and beside it if both are the same once they are checked.

    >>> make_mechanism("square_wave", {"bandwidth": 0.2}) == SquareWave(bandwidth=0.2)
    True
    """
    if isinstance(mechanism, Mechanism):
        kind = type(mechanism)
        if MECHANISMS.get(kind.name) is not kind:
            refuse("mechanism", kind.__name__, ", ".join(MECHANISMS))
    else:
        kind = MECHANISMS[check_one_of("mechanism", mechanism, MECHANISMS)]
    known = options_of(kind)
    for name, value in options.items():
        if name not in known and value is not None:
            raise CollectionError(
                f"{name}: not an option of {kind.name}, which takes {', '.join(known) or 'no option'}"
            )
    chosen = {name: known[name].default if value is None else value for name, value in options.items() if name in known}
    if not isinstance(mechanism, Mechanism):
        return kind(**chosen)
    if mechanism.in_collection:
        return replace(mechanism, buckets=0, epsilon=0.0, **chosen)

    def checked(name: str, value: object) -> object:
        return None if value is None else known[name].check(name, value, buckets)

    for name, value in chosen.items():
        own = getattr(mechanism, name)
        if checked(name, own) not in (known[name].default, checked(name, value)):
            raise CollectionError(f"{name}: got {value!r}, and {own!r} in the mechanism, allowed: one of them")
    return replace(mechanism, **chosen)


__all__ = [
    "MECHANISMS",
    "ContinuousSquareWave",
    "FrequencyOracle",
    "GeneralWave",
    "HaarResponse",
    "Hierarchy",
    "LocalHashing",
    "Mechanism",
    "Piecewise",
    "RandomizedResponse",
    "SeededHashing",
    "SquareWave",
    "StochasticRounding",
    "Transition",
    "best_bandwidth",
    "frequency_oracle",
    "make_mechanism",
    "mechanism_options",
    "options_of",
]
