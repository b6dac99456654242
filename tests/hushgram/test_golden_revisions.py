"""Revisions are a protocol: devices in the field send them, so those of a table recorded once must never move.

The table holds every mechanism, with options set and left out, on linear, integer and log domains, and collections
with `previous`.
"""

import json
from pathlib import Path

import pytest

from hushgram import Collection
from hushgram.mechanisms import MECHANISMS

GOLDEN = json.loads((Path(__file__).parent / "golden_revisions.json").read_text())


def test_recorded_revisions_do_not_move():
    changed = {
        str(parameters): (Collection(name="golden", **parameters).revision, revision)
        for parameters, revision in GOLDEN["collections"]
        if Collection(name="golden", **parameters).revision != revision
    }
    assert not changed


@pytest.mark.parametrize(("parameters", "revisions"), GOLDEN["previous"], ids=lambda value: str(value)[:60])
def test_recorded_previous_revisions_do_not_move(parameters, revisions):
    assert list(Collection(name="golden", **parameters).revisions) == revisions


def test_the_table_holds_every_mechanism():
    assert {parameters["mechanism"] for parameters, _ in GOLDEN["collections"]} == set(MECHANISMS)
