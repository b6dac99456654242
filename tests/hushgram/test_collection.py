"""A collection and its file: names, limits, fingerprints, and errors that a person can act on."""

import hashlib
import json
import re
import reprlib
import tracemalloc
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram import Collection, CollectionError, Windows, load_collections
from hushgram._validation import describe
from hushgram.config import parse_collections
from hushgram.mechanisms import SquareWave
from hushgram.sampling import Law
from hushgram.windows import LONGEST, format_duration, parse_duration

BASE = {"name": "commute", "low": 0, "high": 180, "buckets": 1024, "epsilon": 1.0}

WRONG = [
    ({"name": ""}, "name", "printable text"),
    ({"name": "a\nb"}, "name", "printable text"),
    ({"name": 7}, "name", "printable text"),
    ({"name": "a\ufffd"}, "name", "printable text"),
    ({"low": float("nan")}, "low", "a number"),
    ({"low": "0"}, "low", "a number"),
    ({"high": float("inf")}, "high", "a number"),
    ({"high": 0}, "high", "above low"),
    ({"high": -5}, "high", "got -5.0"),
    ({"low": -1e308, "high": 1e308}, "low", "from -1e+150 to 1e+150"),
    ({"low": 10**400}, "low", "from -1e+150 to 1e+150"),
    ({"low": 1e9, "high": 1e9 + 1e-5}, "high", "would not be distinct"),
    ({"low": 1e-320, "high": 1.0, "scale": "log"}, "low", "above 0 on a log scale"),
    ({"low": 1.0, "high": 1.0001, "scale": "log"}, "high", "at least 1.001 times low"),
    ({"low": True}, "low", "a number"),
    ({"epsilon": 0}, "epsilon", "from 1e-06 to 20"),
    ({"epsilon": -1}, "epsilon", "from 1e-06 to 20"),
    ({"epsilon": 1e-7}, "epsilon", "from 1e-06 to 20"),
    ({"epsilon": 21}, "epsilon", "from 1e-06 to 20"),
    ({"epsilon": "one"}, "epsilon", "from 1e-06 to 20"),
    ({"epsilon": None}, "epsilon", "from 1e-06 to 20"),
    ({"buckets": 1}, "buckets", "whole number from 2 to 65536"),
    ({"buckets": 10.0}, "buckets", "whole number from 2 to 65536"),
    ({"buckets": 2**17}, "buckets", "whole number from 2 to 65536"),
    ({"scale": "ln"}, "scale", "linear, log"),
    ({"scale": "log"}, "low", "above 0 on a log scale"),
    ({"integer": "yes"}, "integer", "true or false"),
    ({"integer": True, "low": 0.5, "buckets": 181}, "low", "a whole number"),
    ({"integer": True, "low": 0, "high": 2**60 - 1}, "high", "at most 2**51"),
    ({"integer": True, "low": 0, "high": 180, "buckets": 100}, "buckets", "such as 181"),
    ({"integer": True, "low": 1, "high": 2**31 - 1, "buckets": 64}, "buckets", "and there is none"),
    ({"integer": True, "high": 127, "buckets": 128, "bins": 10, "mechanism": "randomized_response"}, "bins", "divisor"),
    ({"integer": True, "high": 127, "buckets": 128, "mechanism": "general_wave"}, "integer", "false with general_wave"),
    ({"mechanism": "piecewise", "output_buckets": 100}, "output_buckets", "whole number from 256"),
    ({"mechanism": "hierarchy", "branching": 4.0}, "branching", "whole number from 2 to 8"),
    ({"mechanism": "hierarchy", "branching": 8, "buckets": 65536}, "buckets", "such as 32768"),
    ({"mechanism": ["haar"]}, "mechanism", "square_wave, "),
    ({"integer": True, "buckets": 100}, "buckets", "a divisor of the 181 whole numbers"),
    ({"integer": True, "low": 1, "high": 8, "buckets": 8, "scale": "log"}, "integer", "false on a log scale"),
    ({"unit": 3}, "unit", "printable text"),
    ({"mechanism": "square_wav"}, "mechanism", "did you mean square_wave?"),
    ({"estimator": "emm"}, "estimator", "ems, em"),
    ({"estimator": "hh"}, "estimator", "ems, em, log_spline with the mechanism square_wave"),
    ({"mechanism": "haar", "estimator": "ems"}, "estimator", "haar with the mechanism haar"),
    ({"mechanism": "hierarchy", "buckets": 1000}, "buckets", "a power of 4, such as 256 or 1024"),
    ({"mechanism": "hierarchy", "branching": 3}, "branching", "2, 4, 8"),
    ({"mechanism": "hierarchy", "branching": 8}, "buckets", "a power of 8, such as 512 or 4096"),
    ({"mechanism": "haar", "buckets": 1000}, "buckets", "a power of 2, such as 512 or 1024"),
    ({"mechanism": "hierarchy", "level_decay": 0}, "level_decay", "from 0.1 to 1"),
    ({"bandwidth": -0.1}, "bandwidth", "from 0 to 1"),
    ({"widths": 0.5}, "widths", "a list of factors of the bandwidth, such as [0.5, 1]"),
    ({"widths": [1]}, "widths", "2 to 8 different factors"),
    ({"widths": [1, 1.0]}, "widths", "2 to 8 different factors"),
    ({"widths": [0.5, "wide"]}, "widths[1]", "a number from 0.05 to 4"),
    ({"mechanism": "general_wave", "wave_ratio": 2}, "wave_ratio", "from 0 to 1"),
    ({"mechanism": "square_wave_continuous", "output_buckets": 1}, "output_buckets", "whole number from 2"),
    ({"mechanism": "randomized_response", "bins": 1}, "bins", "whole number from 2 to 1024"),
    ({"mechanism": "randomized_response", "bins": 2000}, "bins", "whole number from 2 to 1024"),
    ({"mechanism": "local_hashing", "symbols": 9}, "symbols", "a prime number"),
    ({"mechanism": "local_hashing", "symbols": 1}, "symbols", "whole number from 2"),
    ({"branching": 4}, "branching", "not an option of square_wave, which takes bandwidth"),
    ({"mechanism": "haar", "bins": 8}, "bins", "not an option of haar, which takes no option"),
    ({"mechanism": "piecewise", "low": 1, "scale": "log"}, "scale", "linear with piecewise"),
    ({"stopping": "never"}, "stopping", "paper, converged"),
    ({"smoothing": "none"}, "smoothing", "full, adaptive"),
    ({"smoothing": 0.5}, "smoothing", "full, adaptive"),
    ({"estimator": "em", "smoothing": "adaptive"}, "smoothing", "not an option of em, but of ems"),
    ({"mechanism": "haar", "smoothing": "full"}, "smoothing", "not an option of haar, but of ems"),
    ({"solver": "exact"}, "solver", "not an option of ems, but of hh_admm"),
    ({"intervals": "any"}, "intervals", "smooth, any_shape"),
    ({"intervals": True}, "intervals", "smooth, any_shape"),
    (
        {"mechanism": "hierarchy", "intervals": "any_shape"},
        "intervals",
        "smooth with hierarchy; any_shape is there for",
    ),
    ({"mechanism": "piecewise", "intervals": "any_shape"}, "intervals", "smooth with piecewise"),
    ({"buckets": 8192, "intervals": "any_shape"}, "intervals", "any_shape takes at most 4096"),
    ({"quantiles": 0.99}, "quantiles", "a list of shares of the values, such as [0.99, 0.999]"),
    ({"quantiles": [0.5, 0]}, "quantiles[1]", "a number between 0 and 1"),
    ({"quantiles": [1.0]}, "quantiles[0]", "a number between 0 and 1"),
    ({"quantiles": [float("nan")]}, "quantiles[0]", "a number between 0 and 1"),
    ({"quantiles": [99]}, "quantiles[0]", "a number between 0 and 1, as 0.99 for 99 %"),
    ({"quantiles": ["p99"]}, "quantiles[0]", "a number between 0 and 1"),
    ({"quantiles": [0.3, 0.1 + 0.2]}, "quantiles[1]", "each share only once"),
    ({"quantiles": [0.99], "mechanism": "piecewise"}, "quantiles", "none with piecewise, which estimates a mean only"),
    ({"quantiles": [n / 200 for n in range(1, 102)]}, "quantiles", "at most 100"),
    ({"minimum_reports": -1}, "minimum_reports", "whole number from 0"),
    ({"groups": "DE"}, "groups", "a list of labels"),
    ({"groups": ["DE", "DE"]}, "groups[1]", "each label only once"),
    ({"groups": ["DE", False]}, "groups[1]", "put it in quotes"),
    ({"groups": [""]}, "groups[0]", "printable text"),
    ({"groups": ["x" * 200]}, "groups[0]", "1 to 128 characters"),
    ({"windows": "1h"}, "windows", "a Windows value"),
    ({"previous": {"epsilon": 2}}, "previous", "a list of differences"),
    ({"previous": [{}]}, "previous[0]", "a mapping of what was different"),
    ({"previous": [{"epsilon": 1.0}]}, "previous[0]", "each only once"),
    ({"previous": [{"epsilon": 2}, {"epsilon": 2.0}]}, "previous[1]", "each only once"),
    ({"previous": [{"high": 90}]}, "previous[0].high", "cannot differ in one window"),
    ({"previous": [{"epsilon": -2}]}, "previous[0]", "epsilon: got -2"),
    ({"previous": [{"mechanism": "haar"}]}, "previous[0]", "estimator: got 'ems'"),
    ({"epsilon": 20.0, "bandwidth": 0.5}, "square_wave", "63 are allowed"),
]


@pytest.mark.parametrize(("change", "field", "allowed"), WRONG, ids=[str(change) for change, *_ in WRONG])
def test_errors_of_a_collection_name_the_field_and_the_allowed_values(change, field, allowed):
    with pytest.raises(CollectionError) as raised:
        Collection(**{**BASE, **change})
    message = str(raised.value)
    assert field in message
    assert allowed in message
    assert "\n" not in message
    if field in change and "not an option" not in message:
        value = change[field]
        plain = float(value) if isinstance(value, int) and abs(value) < 10**300 else value
        assert any(f"{field}: got {reprlib.repr(form)}" in message for form in (value, plain))


def test_groups_are_bounded():
    with pytest.raises(CollectionError, match="groups: got 10001 labels, allowed: at most 10000"):
        Collection(**BASE, groups=[str(label) for label in range(10_001)])


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "37.5", None, [1.0, 2.0], [1.0, [2]], True, np.True_, b"1", 1j, object(), 10**400],
)
def test_a_device_refuses_values_that_are_not_numbers(value):
    with pytest.raises(ValueError, match=f"^value must be a finite number, got {re.escape(describe(value))}$"):
        Collection(**BASE).report(value)


def test_a_huge_number_is_described_without_its_digits():
    assert describe(10**5000) == "a huge whole number"
    assert describe([10**5000]) == "a huge value of type list"


def test_a_device_reports_cells_and_clips_in_silence():
    c = Collection(**BASE)
    for value in (-1e300, 0, 37.5, np.float32(3), np.int64(90), 180, 1e300):
        cell = c.report(value)
        assert isinstance(cell, int)
        assert 0 <= cell < c.mechanism.cells
    low, beyond = (c.simulate([value] * 50, np.random.default_rng(3)) for value in (0.0, -1e9))
    assert low.tolist() == beyond.tolist()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("nan")], "values must be finite, got nan at position 1"),
        ([float("-inf")], "values must be finite, got -inf at position 0"),
        (["a"], "values must be numbers"),
        ([[1.0, 2.0]], "values must be a flat sequence"),
        ([1.0, None], "values must be numbers"),
        ([1 + 2j], "values must be numbers"),
        ([True], "values must be numbers, got truth values: \\[True\\]"),
        ("a", "values must be numbers, got text: 'a'"),
        ([[1.0], [1.0, 2.0]], "values must be numbers"),
    ],
)
def test_simulation_names_the_wrong_value(values, message):
    with pytest.raises(ValueError, match=message):
        Collection(**BASE).simulate(values, seed=1)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([0, -1], "cells must be from 0 to 1547, got -1"),
        ([1548], "cells must be from 0 to 1547, got 1548"),
        ([0.5], "cells must be whole numbers, got floating-point numbers: \\[0.5\\]"),
        (["x"], "cells must be whole numbers"),
        ([[1]], "cells must be a flat sequence"),
        ([True], "cells must be whole numbers, got truth values"),
        ([[1], [1, 2]], "cells must be whole numbers"),
        (7, "cells must be a flat sequence"),
        ([2**70], "cells must be whole numbers"),
    ],
)
def test_a_tally_names_the_wrong_cell(cells, message):
    with pytest.raises(ValueError, match=message):
        Collection(**BASE).tally(cells)


def test_an_estimate_refuses_a_wrong_tally_with_a_reason():
    c = Collection(**BASE)
    tally = c.tally([3, 4])
    for wrong_tally, message in [
        (tally[:-1], "vector of length 1548, got shape \\(1547,\\)"),
        (tally[None, :], "vector of length 1548"),
        (tally.astype(float), "tally must be whole numbers, got floating-point numbers: array"),
        (tally - 1, "must not be negative, got -1 at cell 0"),
        (np.full(1548, 2**62), "sum to less than"),
        ({"0123456789abcdef": tally}, "unknown revision '0123456789abcdef'"),
        ("tally", "tally must be whole numbers"),
        ({1: tally, "a": tally}, "unknown revision 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            c.estimate(wrong_tally)


def test_a_tally_of_support_must_be_possible():
    c = Collection(**{**BASE, "buckets": 8, "mechanism": "seeded_hashing"})
    tally = c.tally(c.simulate([3.0] * 10, seed=1))
    for wrong_tally in (np.r_[tally[:-1], 0], np.r_[np.full(8, 1000), 10]):
        with pytest.raises(ValueError, match="more often than there are reports"):
            c.estimate(wrong_tally)


def test_numpy_numbers_are_numbers_and_equal_parameters_have_one_fingerprint():
    c = Collection(**{**BASE, "buckets": np.int64(64), "epsilon": np.float32(1.0), "low": -0.0, "high": np.int32(180)})
    assert c.revision == Collection(**{**BASE, "buckets": 64}).revision
    wave = {**BASE, "mechanism": "general_wave"}
    assert Collection(**wave, wave_ratio=0).revision == Collection(**wave, wave_ratio=0.0).revision
    hashing = {**BASE, "mechanism": "local_hashing"}
    assert Collection(**hashing, symbols=np.int64(3)).revision == Collection(**hashing, symbols=3).revision


def test_windows_made_in_code_are_checked_too():
    for parameters in (
        {"max_delay": -5},
        {"max_age": -1},
        {"size": "1h"},
        {"size": None},
        {"size": 3.6e6},
        {"early": 0},
    ):
        with pytest.raises(CollectionError, match=next(iter(parameters))):
            Windows(**parameters)


@pytest.mark.parametrize(
    ("mechanism", "buckets"),
    [("randomized_response", 65536), ("local_hashing", 65536), ("hierarchy", 65536), ("haar", 65536)],
)
def test_the_largest_collections_are_read_in_bounded_memory(mechanism, buckets):
    c = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=buckets, mechanism=mechanism)
    cells = c.simulate(np.random.default_rng(1).beta(5, 2, 20_000), seed=1)
    tracemalloc.start()
    e = c.estimate(c.tally(cells))
    e.interval("mean"), e.band()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


def test_empty_lists_of_cells_and_values_are_allowed():
    c = Collection(**BASE)
    assert c.tally([]).sum() == 0
    assert c.simulate([], seed=1).size == 0
    assert c.estimate_many([]) == []


def test_the_law_is_the_integers_a_client_needs():
    c = Collection(**BASE)
    [law] = c.mechanism.laws
    assert isinstance(law, Law)
    assert (law.P, law.Q) == (11674931554, 2**32)
    assert law.T == 525 * law.P + 1023 * law.Q
    tree = Collection(**{**BASE, "mechanism": "hierarchy"})
    assert [law.others for law in tree.mechanism.laws] == [3, 2, 2, 2, 2]


def test_revisions_are_fingerprints_of_the_law_and_do_not_drift():
    # Clients in the field send these: a change here is a change of protocol.
    golden = {
        "square_wave": "bee7fcbcb7cce993",
        "square_wave_continuous": "e577051af80b90e2",
        "general_wave": "53eb6824b13b57f9",
        "randomized_response": "7837b0d80a7f761f",
        "local_hashing": "915bfcfd742e4652",
        "seeded_hashing": "94d99c15ef606f36",
        "hierarchy": "010df1f7db62633d",
        "haar": "1aa29fa020edcd00",
        "stochastic_rounding": "58815cec1f1cb720",
        "piecewise": "95a249bb7e7a6196",
    }
    assert {kind: Collection(**{**BASE, "mechanism": kind}).revision for kind in golden} == golden


def test_a_revision_is_the_hash_of_its_canonical_parameters():
    c = Collection(**BASE)
    [law] = c.mechanism.laws
    text = json.dumps(
        {
            "low": 0.0, "high": 180.0, "scale": "linear", "integer": False, "epsilon": 1.0, "mechanism": "square_wave",
            "parameters": {"buckets": 1024, "half_width": 262}, "laws": [[law.P, law.Q, law.T]],
        },
        sort_keys=True, separators=(",", ":"),
    )  # fmt: skip
    assert c.revision == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_only_parameters_of_the_law_change_the_revision():
    c = Collection(**BASE)
    irrelevant_changes = [
        {"name": "other"},
        {"unit": "minutes"},
        {"groups": ("DE",)},
        {"minimum_reports": 5},
        {"stopping": "converged"},
        {"smoothing": "adaptive"},
        {"intervals": "any_shape"},
        {"quantiles": (0.99, 0.999)},
    ]
    irrelevant_changes += [{"estimator": "em"}, {"windows": Windows(size=1000, every=1000)}, {"low": 0.0, "epsilon": 1}]
    assert {replace(c, **change).revision for change in irrelevant_changes} == {c.revision}
    relevant_changes = [
        {"low": 1},
        {"high": 181},
        {"epsilon": 1.01},
        {"buckets": 512},
        {"bandwidth": 0.2},
        {"low": 1, "scale": "log"},
    ]
    relevant_changes += [{"mechanism": "square_wave_continuous"}, {"integer": True, "buckets": 181}]
    assert (
        len({replace(c, **change).revision for change in relevant_changes} | {c.revision}) == len(relevant_changes) + 1
    )


def test_the_bandwidth_of_a_wave_is_an_option():
    c = Collection(**BASE, bandwidth=0.1)
    assert c.mechanism.half_widths == (102,)
    assert Collection(**BASE).mechanism.half_widths == (262,)


def test_a_wave_may_have_several_widths():
    c = Collection(**BASE, widths=[1, 0.5])
    assert c.mechanism.half_widths == (131, 262)
    assert c == Collection(**BASE, mechanism=SquareWave(widths=(0.5, 1.0)))
    assert c == Collection(**c.to_dict())
    assert c.revision != Collection(**BASE).revision
    earlier = replace(Collection(**BASE), previous=[{"widths": [0.5, 1]}])
    assert c.revision in earlier.revisions
    assert Collection(**BASE).revision in replace(c, previous=[{"widths": None}]).revisions
    [parsed] = parse_collections(
        "collections: {commute: {domain: {low: 0, high: 180}, epsilon: 1, widths: [0.5, 1]}}"
    ).values()
    assert parsed.revision == c.revision


@pytest.mark.parametrize("own", [(0.5, 1.0), (1.0, 0.5), [0.5, 1]])
@pytest.mark.parametrize("beside", [(0.5, 1.0), [0.5, 1], [1, 0.5]])
def test_widths_may_be_given_twice_if_they_are_the_same(own, beside):
    c = Collection(**BASE, mechanism=SquareWave(BASE["buckets"], BASE["epsilon"], widths=own), widths=beside)
    assert c == Collection(**BASE, widths=[0.5, 1])


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ([0.5, 1.25], "widths: got [0.5, 1.25], and (0.5, 1.0) in the mechanism, allowed: one of them"),
        (None, "widths: got None, and (0.5, 1.0) in the mechanism, allowed: one of them"),
        ([0.5], "widths: got [0.5], allowed: 2 to 8 different factors"),
    ],
)
def test_other_widths_than_those_of_the_mechanism_are_refused(beside, message):
    with pytest.raises(CollectionError, match=re.escape(message)):
        Collection(**BASE, mechanism=SquareWave(widths=(0.5, 1.0)), widths=beside)


def test_previous_revisions_inherit_unchanged_parameters():
    c = Collection(**BASE, unit="minutes", groups=["DE"], previous=[{"epsilon": 2.0}, {"mechanism": "general_wave"}])
    current, sharper, wave = c.revisions.values()
    assert current is c
    assert (sharper.epsilon, sharper.mechanism.name, sharper.buckets, sharper.unit) == (
        2.0,
        "square_wave",
        1024,
        "minutes",
    )
    assert (wave.epsilon, wave.mechanism.name) == (1.0, "general_wave")
    assert sharper.revision == Collection(**{**BASE, "epsilon": 2.0}).revision


def test_options_of_one_mechanism_are_not_inherited_by_another():
    c = Collection(**BASE, bandwidth=0.1, previous=[{"mechanism": "square_wave_continuous", "output_buckets": 512}])
    assert list(c.revisions.values())[1].mechanism.bandwidth is None


def test_a_collection_is_immutable_and_compared_by_value():
    assert Collection(**BASE) == Collection(**BASE)
    with pytest.raises(AttributeError):
        Collection(**BASE).epsilon = 2.0


MECHANISM_CHOICES = [
    {},
    {"bandwidth": 0.2},
    {"mechanism": "square_wave_continuous", "output_buckets": 300},
    {"mechanism": "general_wave", "wave_ratio": 0.3, "estimator": "em"},
    {"mechanism": "randomized_response", "bins": 16},
    {"mechanism": "local_hashing", "symbols": 3},
    {"mechanism": "seeded_hashing"},
    {"mechanism": "hierarchy", "branching": 2, "level_decay": 0.5, "solver": "admm"},
    {"mechanism": "haar"},
    {"mechanism": "stochastic_rounding"},
    {"mechanism": "piecewise", "output_buckets": 512},
]
PREVIOUS_CHOICES = [(), ({"epsilon": 7.5},), (MappingProxyType({"epsilon": np.float64(7.5)}), {"epsilon": 0.125})]


@given(
    st.sampled_from(MECHANISM_CHOICES),
    st.sampled_from(PREVIOUS_CHOICES),
    st.floats(0.25, 5),
    st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20),
    st.lists(st.sampled_from(["DE", "FR", "'", '"\\']), unique=True),
    st.sampled_from([Windows(), Windows(size=60_000, every=20_000, early=None)]),
)
def test_the_repr_of_a_collection_makes_it_again(choice, previous, epsilon, text, groups, windows):
    parameters = {"name": text, "unit": text, "groups": groups, "windows": windows, "previous": previous}
    c = Collection(**{**BASE, "buckets": 256, "epsilon": epsilon, **choice, **parameters})
    evaluated = eval(repr(c), {"Collection": Collection, "Windows": Windows})
    assert evaluated == c == Collection(**c.to_dict())
    assert (evaluated.revision, list(evaluated.revisions)) == (c.revision, list(c.revisions))


def test_the_repr_of_a_collection_leaves_out_defaults():
    assert repr(Collection(**BASE)) == "Collection(name='commute', low=0.0, high=180.0, epsilon=1.0)"
    wave = Collection(**{**BASE, "buckets": 64, "unit": "minutes"}, bandwidth=0.25)
    arguments = "name='commute', low=0.0, high=180.0, epsilon=1.0, buckets=64, unit='minutes', bandwidth=0.25"
    assert repr(wave) == f"Collection({arguments})"
    hierarchy = "Collection(name='commute', low=0.0, high=180.0, epsilon=1.0, mechanism='hierarchy')"
    assert repr(Collection(**BASE, mechanism="hierarchy", estimator="hh_admm")) == hierarchy


YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 1024
    epsilon: 1.0
    mechanism: square_wave
    estimator: ems
    windows: {size: 1h, every: 15m, max_delay: 2m, max_age: 1d, early: 1m}
    groups: [DE, FR, US]
    minimum_reports: 1000
    previous: [{epsilon: 2.0}]
  age:
    domain: {low: 0, high: 127, integer: true}
    buckets: 128
    epsilon: 2
    mechanism: hierarchy
    branching: 2
    windows: {size: 1d, early: null}
"""


def test_collections_come_from_a_file(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text(YAML)
    commute, age = load_collections(path).values()
    assert commute.revision == Collection(**BASE).revision
    assert commute.windows == Windows(3_600_000, 900_000, 120_000, 86_400_000, 60_000)
    assert commute.windows.slice == 900_000
    assert commute.groups == ("DE", "FR", "US")
    assert len(commute.revisions) == 2
    assert age.windows == Windows(86_400_000, 86_400_000, 120_000, 86_400_000, None)
    assert (age.estimator, age.domain.integer, age.name) == ("hh_admm", True, "age")
    assert load_collections(str(path)) == load_collections(path)


def test_a_large_file_is_read_in_linear_time():
    text = "collections: {" + ", ".join(f"n{i}: 1" for i in range(30_000)) + "}"
    with pytest.raises(CollectionError, match="collection 'n0'"):
        parse_collections(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "one entry, collections"),
        ("[1, 2]", "one entry, collections"),
        ("collections: {}", "at least one"),
        ("collections: {a: 1}", "collection 'a': collection: got 1"),
        ("{collections: {}, more: 1}", "one entry, collections"),
        ("collections: {a: {epsilon: 1}}", "domain: missing"),
        ("collections: {a: {domain: null, epsilon: 1}}", "domain: got None"),
        ("collections: {a: {domain: {low: 0}, epsilon: 1}}", "collection 'a': domain.high: missing"),
        ("collections: {a: {domain: {low: 0, high: 1}}}", "collection 'a': epsilon: missing"),
        ("collections: {a: {domain: {low: 0, high: 1, step: 2}, epsilon: 1}}", "domain.step: unknown"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilo: 1}}", "did you mean epsilon?"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, epsilon: 2}}", "'epsilon' stands twice"),
        ("collections: {no: {domain: {low: 0, high: 1}, epsilon: 1}}", "put it in quotes"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, groups: [DE, NO]}}", "put it in quotes"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, windows: 1h}}", "windows: got '1h'"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, windows: {sise: 1h}}}", "did you mean size?"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, windows: {size: 1}}}", "windows.size: got 1"),
        (
            "collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, windows: {size: 0s}}}",
            "windows.size in milliseconds: got 0",
        ),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, windows: {size: 1h, every: 2h}}}", "would be lost"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, windows: {size: 1d, every: 1ms}}}", "10,000 slices"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, windows: {size: 99999w}}}", "ten years at most"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1e-3}}", None),
        ("collections: {a: {domain: {low: 0, high: .inf}, epsilon: 1}}", "high: got inf"),
        ("collections: [", "not valid YAML"),
        ("collections: !!python/object/apply:os.system ['true']", "not valid YAML"),
        ("collections: {? [a] : 1}", "not valid YAML"),
        ("collections: {a: {domain: {low: 0, high: 1}, epsilon: 1, groups: [1e5abc]}}", None),
        ("collections: {a: {domain: {low: 0, high: 1" + "0" * 400 + "}, epsilon: 1}}", "high: got 1"),
        ("collections: {a: {domain: {low: 0, high: 1, unit: 2001-99-99}, epsilon: 1}}", "not valid YAML"),
        ("collections: {a: !!bool abc}", "not valid YAML"),
        ("collections: {a: !!timestamp abc}", "not valid YAML"),
        ("collections: {a: !!int abc}", "not valid YAML"),
        ("base: &b {epsilon: 1}\ncollections: {a: {<<: *b, domain: {low: 0, high: 1}}}", "one entry, collections"),
        ("collections: {a: {domain: {<<: {low: 0}, high: 1}, epsilon: 1}}", None),
    ],
)
def test_errors_of_a_collections_file_name_the_place_and_the_allowed_values(text, message):
    if message is None:
        assert parse_collections(text)["a"].high == 1
        return
    with pytest.raises(CollectionError) as raised:
        parse_collections(text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@given(st.integers(0, LONGEST))
def test_a_duration_is_read_as_it_is_written(milliseconds):
    assert parse_duration("time", format_duration(milliseconds)) == milliseconds


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (2**20 + 1))
    invalid = tmp_path / "wrong.yaml"
    invalid.write_text("collections: 3")
    for path in (tmp_path / "missing.yaml", tmp_path, binary, large, invalid):
        with pytest.raises(CollectionError, match=path.name):
            load_collections(path)
    with pytest.raises(CollectionError, match="more than 1048576 bytes"):
        load_collections("/dev/zero")
    with pytest.raises(CollectionError, match="cannot be read"):
        load_collections("a\0b")


def test_a_log_scale_spreads_a_long_tail():
    c = Collection(name="bytes", low=1, high=2**20, epsilon=4.0, buckets=200, scale="log")
    values = np.random.default_rng(1).lognormal(6, 1.5, 100_000)
    e = c.estimate(c.tally(c.simulate(values, seed=1)))
    assert e.quantile(0.5) == pytest.approx(np.median(values), rel=0.1)
    assert e.interval("quantile", 0.5)[0] < np.median(values) < e.interval("quantile", 0.5)[1]
