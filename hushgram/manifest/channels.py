"""The law of a mechanism as channels, of which a device draws one whatever its value is: six kinds make ten mechanisms.

A channel has its own range of cells, behind those of the channels before it, and the weights `P` and `Q` of a `Law`.
"""

from __future__ import annotations

from functools import singledispatch
from itertools import accumulate
from typing import Any

from hushgram.mechanisms import (
    GeneralWave,
    HaarResponse,
    Hierarchy,
    LocalHashing,
    Mechanism,
    Piecewise,
    RandomizedResponse,
    SeededHashing,
    SquareWave,
    StochasticRounding,
)
from hushgram.sampling import Law

Channel = dict[str, Any]


def law(mechanism: Mechanism) -> dict[str, Any]:
    """The `law` entry of a manifest: its integers as text."""
    return {
        "positions": str(mechanism.positions),
        "cells": str(mechanism.cells),
        "shares": shares(mechanism),
        "channels": channels(mechanism),
    }


@singledispatch
def shares(mechanism: Mechanism) -> list[str] | None:
    """How often each channel is drawn, or None where there is but one, and nothing to draw."""
    return None


@shares.register
def _(mechanism: SquareWave) -> list[str] | None:
    return ["1"] * len(mechanism.bands) if mechanism.widths else None


@shares.register
def _(mechanism: Hierarchy) -> list[str] | None:
    return [str(share) for share in mechanism.shares]


@shares.register
def _(mechanism: HaarResponse) -> list[str] | None:
    return ["1"] * mechanism.height


@singledispatch
def channels(mechanism: Mechanism, offset: int = 0, divisor: int = 1) -> list[Channel]:
    """The channels of a mechanism, from a first cell on, for positions that are divided first."""
    raise TypeError(f"{mechanism.name} has no manifest")


@channels.register
def _(mechanism: SquareWave, offset: int = 0, divisor: int = 1) -> list[Channel]:
    starts = accumulate((band.cells for band in mechanism.bands), initial=offset)
    return [_channel("block", start, divisor, band.law) for start, band in zip(starts, mechanism.bands, strict=False)]


@channels.register
def _(mechanism: RandomizedResponse, offset: int = 0, divisor: int = 1) -> list[Channel]:
    return [_channel("block", offset, divisor, mechanism.law)]


@channels.register
def _(mechanism: LocalHashing, offset: int = 0, divisor: int = 1) -> list[Channel]:
    family = {"symbols": mechanism.g, "digits": mechanism.digits, "functions": mechanism.functions}
    return [_channel("linear_hash", offset, divisor, mechanism.law, **family)]


@channels.register
def _(mechanism: SeededHashing, offset: int = 0, divisor: int = 1) -> list[Channel]:
    return [_channel("xxh32", offset, divisor, mechanism.law, symbols=mechanism.g)]


@channels.register
def _(mechanism: Hierarchy, offset: int = 0, divisor: int = 1) -> list[Channel]:
    found = []
    for level, oracle in enumerate(mechanism.oracles):
        leaves = mechanism.branching ** (mechanism.height - 1 - level)
        found += channels(oracle, int(mechanism.offsets[level]), leaves)
    return found


@channels.register
def _(mechanism: HaarResponse, offset: int = 0, divisor: int = 1) -> list[Channel]:
    return [
        _channel("hadamard", int(mechanism.offsets[level]), 2**level, mechanism.law, rows=nodes)
        for level, nodes in enumerate(mechanism.nodes)
    ]


@channels.register
def _(mechanism: GeneralWave, offset: int = 0, divisor: int = 1) -> list[Channel]:
    return [_channel("wave", offset, divisor, mechanism.law, ramp=mechanism.grid.ramp, step=mechanism.grid.cell)]


@channels.register
def _(mechanism: Piecewise, offset: int = 0, divisor: int = 1) -> list[Channel]:
    return channels(mechanism.wave, offset, divisor)


@channels.register
def _(mechanism: StochasticRounding, offset: int = 0, divisor: int = 1) -> list[Channel]:
    return [_channel("coin", offset, divisor, mechanism.law, steps=mechanism.grid_steps)]


def _channel(kind: str, offset: int, divisor: int, of: Law, **more: int) -> Channel:
    integers = {
        **{"offset": offset, "divisor": divisor},
        **{"P": of.P, "Q": of.Q, "width": of.width, "others": of.others, "total": of.T},
        **more,
    }
    return {"kind": kind, **{name: str(value) for name, value in integers.items()}}
