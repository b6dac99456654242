"""A manifest that was changed: all clients refuse it, or all draw the same cell from it."""

import json
import subprocess

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hushgram import Collection
from hushgram.pipelines.conform.program import Program
from tests.helpers.clients import CLIENTS, REFERENCE, reference
from tests.helpers.tampering import SOURCES, tampered
from tests.helpers.tools import run_or_skip

TIME = 1_767_225_600_001
SCHEMA = json.loads((REFERENCE.parents[2] / "schemas" / "manifest.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module", params=[name for name in CLIENTS if name != "python"])
def client(request):
    with Program(run_or_skip(CLIENTS[request.param]), seconds=120.0) as program:
        yield program


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(manifest=tampered(), value=st.sampled_from([-1e300, 1.0, 37.5, 1e300]), random=st.randoms(use_true_random=False))
def test_what_the_reference_refuses_is_refused_and_what_it_accepts_is_drawn_alike(client, manifest, value, random):
    draws = []

    def below(limit):
        draws.append([str(limit), str(random.choice([0, limit - 1]))])
        return int(draws[-1][1])

    request = {"manifest": manifest, "value": repr(value), "draws": draws, "time": TIME, "id": "0f" * 16}
    try:
        checked = reference.load(json.loads(json.dumps(manifest)))
    except reference.RefusedError:
        assert "refused" in client.ask(request)
        return
    checked.cell(checked.position(value), below)
    assert client.ask(request) == reference.answer(request, {})


@settings(max_examples=300)
@given(tampered())
def test_what_the_reference_accepts_is_of_the_schema(manifest):
    try:
        reference.load(json.loads(json.dumps(manifest)))
    except reference.RefusedError:
        return
    VALIDATOR.validate(manifest)


def with_edges(count):
    manifest = Collection(name="c", low=1, high=180, scale="log", epsilon=1.0, buckets=4).manifest()
    channel = manifest["law"]["channels"][0]
    law = {name: int(channel[name]) for name in ("P", "Q", "width")} | {"others": count + 1}
    total = law["width"] * law["P"] + law["others"] * law["Q"]
    channel |= {name: str(number) for name, number in law.items()} | {"total": str(total)}
    manifest["law"] |= {"positions": str(count + 1), "cells": str(law["width"] + law["others"])}
    return {**manifest, "locate": {"method": "edges", "edges": [str(number) for number in range(1, count + 1)]}}


def with_knots(count):
    manifest = next(source for source in SOURCES if source["locate"]["method"] == "knots")
    return {**manifest, "locate": {**manifest["locate"], "knots": [str(number) for number in range(1, count + 1)]}}


def with_channels(count):
    manifest = Collection(name="c", low=1, high=180, epsilon=1.0, buckets=4, widths=[0.5, 2]).manifest()
    channel, width = manifest["law"]["channels"][0], int(manifest["law"]["channels"][1]["offset"])
    channels = [{**channel, "offset": str(number * width)} for number in range(count)]
    law = {**manifest["law"], "channels": channels, "shares": ["1"] * count, "cells": str(count * width)}
    return {**manifest, "law": law}


def with_groups(count):
    return {**SOURCES[0], "groups": [f"g{number}" for number in range(count)]}


KINDS = SCHEMA["$defs"]


@pytest.mark.parametrize(
    ("make", "described"),
    [
        (with_edges, KINDS["edges"]["properties"]["edges"]),
        (with_knots, KINDS["knots"]["properties"]["knots"]),
        (with_channels, SCHEMA["properties"]["law"]["properties"]["channels"]),
        (with_groups, SCHEMA["properties"]["groups"]),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_lists_are_as_long_as_the_schema_says_and_no_longer(client, make, described):
    for count, fits in ((described["maxItems"], True), (described["maxItems"] + 1, False)):
        manifest = make(count)
        answers = [client.ask({"manifest": manifest, "value": "37.5"}), ask_reference(manifest)]
        assert ["refused" not in answer for answer in answers] == [fits, fits], (count, answers)


def ask_reference(manifest):
    try:
        return reference.answer({"manifest": manifest, "value": "37.5"}, {})
    except reference.RefusedError as error:
        return {"refused": str(error)}


AGES = {
    **dict.fromkeys(
        ("0", "-0", "-0.0", "36e5", "3.6E6", "3600000.0e0", "36000000e-1", "9007199254740991.4", "1e-400"), True
    ),
    **dict.fromkeys(
        ("-1", "0.5", "1e400", "9007199254740992", "9007199254740991.5", "9007199254740993", "9" * 5000), False
    ),
}
"""Whole numbers by their value as a double."""
NO_NUMBERS = ("NaN", "Infinity", "03600000", "+1", ".5", "1.", "0x10", "1_0", "1e", "'1'")


def texts():
    """Manifests as text, and whether they are accepted: what `json.dumps` does not write."""
    text = json.dumps(SOURCES[0])
    assert '"max_age_ms": 86400000' in text
    for number, accepted in AGES.items():
        yield text.replace('"max_age_ms": 86400000', f'"max_age_ms": {number}'), accepted
        yield f'{text[:-1]}, "more": {number}}}', True
    for number in NO_NUMBERS:
        yield f'{text[:-1]}, "more": {number}}}', False
    for label, accepted in (
        *(("\\ud800", False), ("\\udc00\\ud800", False), ("\\ud83d\\ude00", True), ("\\ufffd", False)),
        *(("a\tb", False), ("\\u0000", True), ("\\uffff", True), ("\\x41", False)),
    ):
        yield text.replace('"DE"', f'"{label}"'), accepted
    yield text.replace('"format"', '"\\u0066ormat"'), True
    yield f'{text[:-1]}, "__proto__": {{"law": null}}}}', True
    yield f'{text[:-1]}, "more": {"[" * 32}{"]" * 32}}}', True
    yield f"{text[:-1]},}}", False
    yield f"{text} {text}", False


@pytest.mark.parametrize("name", CLIENTS)
def test_json_is_read_alike_in_every_language(name):
    cases = list(texts())
    lines = "".join(f'{{"value": "37.5", "manifest": {text}}}\n' for text, _ in cases)
    completed = subprocess.run(run_or_skip(CLIENTS[name]), input=lines, capture_output=True, text=True, check=True)
    answers = ["refused" not in json.loads(line) for line in completed.stdout.splitlines()]
    assert len(answers) == len(cases)
    wrong = [text for (text, accepted), answer in zip(cases, answers, strict=True) if answer != accepted]
    assert not wrong
