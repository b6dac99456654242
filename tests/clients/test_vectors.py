"""Manifests and vectors are of their published schemas, and the reference client answers every vector."""

import json
from pathlib import Path

import jsonschema
import pytest

from devtools.vectors import FOLDER, render
from hushgram import Collection
from hushgram.manifest import SCHEMAS
from hushgram.mechanisms import MECHANISMS
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from tests.helpers.clients import reference

ROOT = Path(__file__).parents[2]
RENDERED = render()
SETS = [
    pytest.param(part, id=f"{name}: {part['name']}")
    for name, text in RENDERED.items()
    for part in json.loads(text)["sets"]
]

ACCEPTED = [part for part in SETS if "refused.json" not in part.id]


def validator(name):
    return jsonschema.Draft202012Validator(json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text()))


def test_the_files_are_what_the_command_writes():
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")} == RENDERED


def test_files_are_small_and_of_their_schema():
    for text in RENDERED.values():
        assert len(text) < 1 << 17
        validator("vectors").validate(json.loads(text))


def test_the_vectors_hold_every_mechanism_and_every_kind_of_channel():
    manifests = [part.values[0]["manifest"] for part in ACCEPTED]
    assert {manifest["mechanism"] for manifest in manifests} == set(MECHANISMS)
    kinds = {channel["kind"] for manifest in manifests for channel in manifest["law"]["channels"]}
    assert kinds == set(reference.EXTRAS)


@pytest.mark.parametrize("part", SETS)
def test_the_reference_client_answers_every_vector(part):
    state = {}
    for case in part["cases"]:
        try:
            answer = reference.answer({"manifest": part["manifest"], **case["request"]}, state)
        except reference.RefusedError:
            answer = {"refused": True}
        assert answer == case["answer"], case


@pytest.mark.parametrize("part", ACCEPTED)
def test_manifests_are_of_their_schema(part):
    validator("manifest").validate(part["manifest"])


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_manifest_survives_json(mechanism):
    made = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=64, mechanism=mechanism).manifest()
    assert json.loads(json.dumps(made)) == made


def test_the_fingerprints_are_those_of_the_schemas():
    """Of the first versions: what later ones of a batch add is for servers that pack the reports of many devices."""
    first = {
        name: next(iter(kind.versions)).hex() for name, kind in (("Report", REPORT), ("ReportBatch", REPORT_BATCH))
    }
    assert first == SCHEMAS
    assert SCHEMAS == reference.SCHEMAS
