"""The reference client's law by enumeration of all draws: whatever manifest it loads, ε holds exactly."""

import json
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection
from hushgram.manifest import channels
from hushgram.mechanisms import MECHANISMS
from tests.helpers.clients import load_reference, reference
from tests.helpers.exact import compute_exact_law, compute_worst_ratio, is_at_most_exp

BASE = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=4).manifest()


def laws_of(manifest):
    return [
        compute_exact_law(lambda below, place=place: manifest.cell(place, below)) for place in range(manifest.positions)
    ]


def make_tiny(mechanism):
    """A mechanism with weights of a few units and a grid of a few steps."""
    small = {"bits": 2} | ({"grid_steps": 8} if hasattr(mechanism, "grid_steps") else {})
    return replace(mechanism, **small, **({"output_buckets": 6} if mechanism.name == "piecewise" else {}))


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_has_the_law_of_the_library_and_keeps_epsilon(name, monkeypatch):
    client = load_reference("tiny_client")
    seeds = 8
    monkeypatch.setattr(client, "SEEDS", seeds)
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=4, mechanism=name)
    tiny = make_tiny(collection.mechanism)
    source = json.loads(json.dumps({**collection.manifest(), "law": channels.law(tiny)}))
    if "steps" in source["locate"]:
        source["locate"]["steps"] = tiny.positions - (source["locate"]["round"] == "half_even")
    if name == "seeded_hashing":
        source["law"]["cells"] = str(seeds * tiny.g)
    manifest = client.load(source)
    found = laws_of(manifest)
    assert is_at_most_exp(compute_worst_ratio(found), 1.0)
    assert all(0 <= cell < manifest.cells for law in found for cell in law)
    if name != "seeded_hashing":
        assert found == [
            compute_exact_law(lambda below, place=place: tiny.perturb(place, below)) for place in range(tiny.positions)
        ]


def mostly(draw, wanted):
    """What belongs there, or once in a while any small number."""
    return draw(st.integers(0, 6)) if draw(st.integers(0, 19)) == 0 else wanted


@st.composite
def channel_sources(draw, positions, offset):
    """One channel and the number of its cells: small integers that mostly belong together."""
    kind = draw(st.sampled_from(sorted(reference.EXTRAS)))
    divisor = mostly(draw, 1 if kind in ("wave", "coin") else draw(st.integers(1, 2)))
    most = (positions - 1) // max(divisor, 1)
    Q, width, step, ramp = (draw(st.integers(1, greatest)) for greatest in (3, 3, 2, 3))
    symbols, rows = draw(st.integers(2, 3)), 2 ** draw(st.integers(1, 2))
    width = width if kind in ("block", "wave") else 1
    others = {"block": most + 1, "wave": most + ramp - 1, "coin": 1, "hadamard": 1}.get(kind, symbols - 1)
    if kind == "wave":
        others += -(width + others) % step
    cells = {"wave": (width + others) // step, "hadamard": 2 * rows, "linear_hash": symbols**4, "xxh32": 4 * symbols}
    c = {
        **{"offset": mostly(draw, offset), "divisor": divisor},
        **{"P": mostly(draw, draw(st.integers(Q, 5 * Q))), "Q": mostly(draw, Q)},
        **{"width": mostly(draw, width), "others": mostly(draw, others)},
    }
    extras = {"ramp": ramp, "step": step, "steps": most, "rows": rows, "symbols": symbols, "digits": 3}
    c |= {name: mostly(draw, extras.get(name, symbols**3)) for name in reference.EXTRAS[kind].split()}
    c["total"] = c["width"] * c["P"] + c["others"] * c["Q"] + (draw(st.integers(0, 19)) == 0)
    return {"kind": kind, **{name: str(value) for name, value in c.items()}}, cells.get(kind, width + others)


@st.composite
def sources(draw):
    """A manifest with one or two channels."""
    made, end, positions = [], 0, draw(st.integers(2, 5))
    for _ in range(draw(st.integers(1, 2))):
        channel, cells = draw(channel_sources(positions, end))
        made.append(channel)
        end += cells
    shares = None if len(made) == 1 else [str(mostly(draw, draw(st.integers(1, 3)))) for _ in made]
    law = {"positions": str(positions), "cells": str(end), "shares": shares, "channels": made}
    locate = {**BASE["locate"], "steps": positions}
    return {**BASE, "law": law, "locate": locate, "device": {**BASE["device"], "epsilon": "1.5", "cost": 10**10}}


CLIENT = load_reference("client_with_few_seeds")
CLIENT.SEEDS = 4


def test_whatever_law_is_accepted_keeps_epsilon_exactly():
    """Also laws that no mechanism of the library has; of every kind, some are accepted and some refused."""
    accepted, refused = set(), set()

    @settings(max_examples=400, derandomize=True, database=None)
    @given(sources())
    def check(source):
        kinds = {channel["kind"] for channel in source["law"]["channels"]}
        try:
            manifest = CLIENT.load(source)
        except CLIENT.RefusedError:
            refused.update(kinds)
            return
        accepted.update(kinds)
        found = laws_of(manifest)
        assert all(sum(law.values()) == 1 for law in found)
        assert all(0 <= cell < manifest.cells for law in found for cell in law)
        assert is_at_most_exp(compute_worst_ratio(found), 1.5)

    check()
    assert accepted == refused == set(reference.EXTRAS)


@pytest.mark.parametrize("line", ["", "[]", "null", "{", '{"value": "1"}', '{"manifest": "a path", "value": "1"}'])
def test_lines_that_are_no_requests_are_refused(line, capsys):
    reference.conform([line], sys.stdout)
    assert "refused" in json.loads(capsys.readouterr().out)
