"""A manifest that was changed: no client accepts one that the reference refuses, or draws another cell from it."""

import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hushgram import Budget, Collection, Device
from hushgram.mechanisms import MECHANISMS
from hushgram.pipelines.conform.program import Program
from tests.helpers.clients import CLIENTS, reference
from tests.helpers.tools import run_or_skip

DOMAIN = {"name": "commute", "low": 1.0, "high": 180.0, "epsilon": 1.0, "buckets": 4, "groups": ["DE"]}
BUDGET = Device(2.0, 1000, 2, Budget(3.0, 5000))
SOURCES = [
    *(Collection(**DOMAIN, mechanism=mechanism, device=BUDGET).manifest() for mechanism in sorted(MECHANISMS)),
    Collection(**DOMAIN, widths=[0.5, 2], device=BUDGET).manifest(),
    Collection(**DOMAIN, scale="log", mechanism="square_wave").manifest(),
]
BOUNDS = [0, 1, 2, 18, 64, *(1 << bits for bits in (16, 26, 31, 32, 53, 62, 63, 64))]
"""Whole numbers near which a check or an overflow lies."""


@pytest.fixture(scope="module", params=[name for name in CLIENTS if name != "python"])
def client(request):
    with Program(run_or_skip(CLIENTS[request.param]), seconds=120.0) as program:
        yield program


def ways(value, way=()):
    """How to reach each entry of a manifest."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*way, key)
        yield from ways(inner, (*way, key))


@st.composite
def tampered(draw):
    """One entry, or two, become something else, are removed, or have a neighbour."""
    manifest = copy.deepcopy(draw(st.sampled_from(SOURCES)))
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(list(ways(manifest))))
        inner = manifest
        for step in way:
            inner = inner[step]
        old = inner[last]
        number = st.sampled_from([*BOUNDS, int(old) if str(old).isdigit() else 0])
        number = st.builds(int.__add__, number, st.integers(-2, 2))
        text = number.map(str) | st.text("0123456789+-.eE xd_٣\ud800", max_size=5) | st.sampled_from(["NaN", "1e400"])
        odd = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.just([]) | st.just({})
        what = draw(st.sampled_from(["change", "change", "change", "remove", "add"]))
        if what == "change":
            inner[last] = draw(number | text | odd)
        elif what == "remove":
            del inner[last]
        elif isinstance(inner, dict):
            inner["another"] = old
        else:
            inner.append(old)
    return manifest


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(manifest=tampered(), value=st.sampled_from([-1e300, 1.0, 37.5, 1e300]), random=st.randoms(use_true_random=False))
def test_what_the_reference_refuses_is_refused_and_what_is_accepted_is_drawn_alike(client, manifest, value, random):
    draws = []

    def below(limit):
        draws.append([str(limit), str(random.choice([0, limit - 1]))])
        return int(draws[-1][1])

    request = {"manifest": manifest, "value": repr(value), "draws": draws, "time": 1_767_225_600_001, "id": "0f" * 16}
    try:
        checked = reference.load(json.loads(json.dumps(manifest)))
    except reference.RefusedError:
        assert "refused" in client.ask(request)
        return
    checked.cell(checked.position(value), below)
    answer = client.ask(request)
    assert "refused" in answer or answer == reference.answer(request, {})
