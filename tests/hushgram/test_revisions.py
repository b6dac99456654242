"""Unknown revisions are explained: the parameters of the devices, if recognised, and how to accept them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hushgram import Collection
from hushgram.config import DOMAIN_KEYS, collection_keys, parse_collections
from hushgram.mechanisms import MECHANISMS
from hushgram.previous import previous_keys
from hushgram.revisions import explain_unknown, nearby_revisions

COMMUTE = Collection(name="commute", low=0, high=180, epsilon=1.0)
ACCEPTED = f"(accepted now: {COMMUTE.revision})"


@pytest.mark.parametrize(
    ("change", "explanation"),
    [
        ({"epsilon": 2}, "that of epsilon: 2.0; to accept it, list it as previous: [{epsilon: 2.0}]"),
        ({"mechanism": "general_wave"}, "to accept it, list it as previous: [{mechanism: general_wave}]"),
        ({"buckets": 512}, "that of buckets: 512, which `previous` cannot hold; give it a collection of its own"),
        ({"mechanism": "haar", "estimator": ""}, "that of mechanism: haar, which `previous` cannot hold"),
        ({"high": 10_800}, "that of low: 0.0, high: 10800.0, which `previous` cannot hold"),
        ({"high": 181}, "the device used another domain, epsilon, mechanism, number of buckets or option; "),
        ({"high": 181}, "list parameters of earlier clients under `previous`, such as previous: [{epsilon: 2.0}]"),
    ],
)
def test_a_revision_is_recognised_where_one_parameter_is_different(change, explanation):
    line = explain_unknown(COMMUTE, replace(COMMUTE, **change).revision)
    assert explanation in line
    assert line.endswith(ACCEPTED)
    assert "\n" not in line


def test_the_other_collection_of_a_revision_is_named():
    other = replace(COMMUTE, name="delay", high=60, previous=[{"epsilon": 3.3}])
    for revision in other.revisions:
        assert "that of the collection 'delay'" in explain_unknown(COMMUTE, revision, [COMMUTE, other])


def test_accepted_revisions_are_all_listed():
    c = replace(COMMUTE, previous=[{"epsilon": 2.0}])
    line = explain_unknown(c, "0" * 16)
    assert all(revision in line for revision in c.revisions)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_recommended_previous_parameters_are_accepted(mechanism):
    """The parameters that the line recommends, written under `previous`, make the revision known."""
    options = {"bins": 64} if mechanism in ("local_hashing", "randomized_response") else {}
    c = Collection(name="c", low=1, high=181, buckets=256, epsilon=1.0, mechanism=mechanism, **options)
    recommended = 0
    for revision in list(nearby_revisions(c))[::3]:
        assert revision not in c.revisions
        _, separator, rest = explain_unknown(c, revision).partition("list it as previous: ")
        if separator:
            recommended += 1
            text = (
                f"collections: {{c: {{domain: {{low: 1, high: 181}}, buckets: 256, epsilon: 1, mechanism: {mechanism}"
            )
            text += "".join(f", {name}: {value}" for name, value in options.items())
            text += f", previous: {rest.partition(' (accepted')[0]}}}}}"
            assert revision in parse_collections(text)["c"].revisions
    assert recommended > 8


def test_a_tally_of_an_unknown_revision_is_explained():
    with pytest.raises(ValueError, match=r"list it as previous: \[\{epsilon: 2\.0\}\]"):
        COMMUTE.estimate({replace(COMMUTE, epsilon=2.0).revision: [1]})


def test_an_option_that_devices_left_out_is_recognised():
    c = replace(COMMUTE, bandwidth=0.1)
    line = explain_unknown(c, COMMUTE.revision)
    assert "that of bandwidth: null; to accept it, list it as previous: [{bandwidth: null}]" in line
    assert COMMUTE.revision in replace(c, previous=[{"bandwidth": None}]).revisions


def test_the_guide_names_the_parameters_that_may_change_in_a_running_job():
    """The parameters that the guide allows under `previous` are accepted there, and those that it refuses are not."""
    guide = (Path(__file__).parents[2] / "deploy" / "README.md").read_text()
    rows = {row.split("|")[1]: row for row in guide.splitlines() if row.startswith("|") and "`previous`" in row}
    [acceptable] = [change for change, row in rows.items() if "both are counted" in row]
    [refused] = [change for change, row in rows.items() if "`previous` refuses it" in row]
    text = acceptable.replace("ε", "epsilon")
    names = {name for name in (*collection_keys(), *DOMAIN_KEYS) if re.search(rf"\b{name}\b", text)}
    assert names <= set(previous_keys())
    assert names
    assert not {word.strip() for word in refused.split(",")} & set(previous_keys())
