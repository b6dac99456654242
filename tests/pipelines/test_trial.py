"""`hushgram try`: the domain that it proposes, its output and files, and how wrong input ends."""

import json
import math
import re
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import binom

from hushgram import Collection
from hushgram.config import parse_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.trial.command import yaml_of
from hushgram.pipelines.trial.proposal import MOST_ANSWERS, MOST_WHOLE_NUMBERS, propose
from hushgram.planning import Runs, Shape, outlook

# The rule for domains -------------------------------------------------------------------------------------------------

FLOATS = st.floats(-1e100, 1e100, allow_subnormal=False)
SAMPLES = st.one_of(
    arrays(np.float64, st.integers(2, 300), elements=FLOATS),
    arrays(np.float64, st.integers(2, 300), elements=st.integers(-(10**6), 10**6).map(float)),
    arrays(np.float64, st.integers(2, 300), elements=st.floats(1e-90, 1e90)),
    arrays(np.float64, st.integers(2, 300), elements=st.floats(1e12, 1e12 + 1)),
)


def clipped_shares(values, proposal):
    """The shares of values below and above a domain."""
    return float((values < proposal.low).mean()), float((values > proposal.high).mean())


@given(SAMPLES)
def test_a_proposal_is_a_possible_collection_that_clips_few_values(values):
    assume(values.min() < values.max())
    proposal = propose(values)
    assert Collection(name="c", epsilon=1, **proposal.parameters()).buckets == proposal.buckets
    # A quantile lies between two values: of few values one may be outside.
    assert max(clipped_shares(values, proposal)) <= 0.005 + 1 / values.size


@given(SAMPLES)
def test_a_linear_domain_is_not_much_longer_than_the_values(values):
    assume(values.min() < values.max())
    proposal = propose(values)
    length = float(values.max() - values.min())
    least = 2**19 * math.ulp(float(np.abs(values).max()))  # buckets must be distinct
    zero = max(proposal.high / 4, 0) if proposal.low == 0 else 0
    if proposal.scale == "linear":
        assert proposal.high - proposal.low <= max(1.25 * length + zero, length + 2, least)


@given(SAMPLES, st.integers(-20, 20))
def test_another_unit_that_is_a_power_of_ten_proposes_the_same_domain_in_it(values, power):
    values = np.unique(np.round(np.clip(values, -1e6, 1e6) * 8) + 0.5)  # exact, and never whole
    assume(values.size > 1)
    proposal, scaled_proposal = propose(values), propose(values * 10.0**power)
    assume(
        proposal.scale == scaled_proposal.scale
    )  # a limit may be met in one unit and missed by rounding in the other
    if max(abs(proposal.low), abs(proposal.high)) / (proposal.high - proposal.low) < 100:
        # Ends are multiples of a step that is rounded to 1, 2 or 5: it may fall on the next one.
        length = (proposal.high - proposal.low) * 10.0**power
        for end, scaled_end in ((proposal.low, scaled_proposal.low), (proposal.high, scaled_proposal.high)):
            assert abs(scaled_end - end * 10.0**power) <= 0.11 * length


@given(SAMPLES)
def test_ends_of_a_proposed_domain_are_round_numbers(values):
    assume(values.min() < values.max())
    proposal = propose(values)
    digits = [len(Decimal(repr(end)).normalize().as_tuple().digits) for end in (proposal.low, proposal.high)]
    if proposal.scale == "log":
        assert max(digits) <= 1
    else:
        farthest = max(abs(proposal.low), abs(proposal.high)) / (proposal.high - proposal.low)
        assert max(digits) <= 3 + math.ceil(math.log10(farthest + 1))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("dice", {"low": 1, "high": 6, "integer": True, "buckets": 6, "mechanism": "randomized_response"}),
        ("answers", {"low": 0, "high": 1, "integer": True, "buckets": 2, "mechanism": "randomized_response"}),
        ("hours", {"low": 0, "high": 24, "integer": True, "buckets": 25}),
        ("years", {"low": 1900, "high": 2030, "integer": True, "buckets": 131}),
        ("shares", {"low": 0, "high": 1}),
        ("commutes", {"low": 0, "high": 160}),
        ("sizes", {"low": 5, "high": 2e8, "scale": "log"}),
        ("typo", {"low": 30, "high": 76}),
        ("salaries", {"low": 0, "high": 100_000}),
    ],
)
def test_domains_proposed_for_common_numbers(values, expected):
    rng = np.random.default_rng(1)
    samples = {
        "dice": rng.integers(1, 7, 1000).astype(float),
        "answers": rng.integers(0, 2, 1000).astype(float),
        "hours": rng.integers(0, 24, 1000).astype(float),
        "years": rng.integers(1900, 2026, 1000).astype(float),
        "shares": rng.random(1000),
        "commutes": rng.exponential(20, 10_000),
        "sizes": rng.lognormal(10, 2, 20_000).round(),  # whole, but with a long tail
        "typo": np.append(rng.normal(50, 5, 9999), 1e9),
        "salaries": rng.integers(20_000, 99_000, 5000).astype(float),  # whole, but too many for a bucket each
    }
    assert propose(samples[values]).parameters() == expected
    assert len(set(samples[values])) <= MOST_WHOLE_NUMBERS or not expected.get("integer")


def make_shapes(numbers):
    """Distributions of whole numbers: a hill, steep ones, spikes, and one without any rule."""
    places = np.arange(numbers)
    weights = {
        "hill": binom.pmf(places, numbers - 1, 0.7),
        "falling": 0.5**places,
        "many zeros": np.where(places == 0, 9.0, 1 / (numbers - 1)),
        "a spike": np.where(places == numbers // 2, 9.0, 1 / (numbers - 1)),
        "random": np.random.default_rng(1).dirichlet(np.ones(numbers)),
    }
    return [Shape(name, weight / weight.sum()) for name, weight in weights.items()]


def compute_expected_error(numbers, mechanism, reports):
    options = {"low": 0, "high": numbers - 1, "buckets": numbers, "integer": True, "mechanism": mechanism}
    collection = Collection(name="c", epsilon=1, **options)
    return outlook(collection, make_shapes(numbers), reports, ["w1"], Runs(errors=16), seed=1).figures["w1"]


@pytest.mark.parametrize("numbers", [2, 3, 8, MOST_ANSWERS])
def test_randomized_response_errs_less_than_a_wave_for_few_whole_numbers(numbers):
    answers, wave = (compute_expected_error(numbers, name, 10_000) for name in ("randomized_response", "square_wave"))
    for shape, error in answers.items():
        assert error.mean < wave[shape].mean, shape


def test_a_wave_errs_less_than_randomized_response_for_more_whole_numbers_of_a_smooth_shape():
    answers, wave = (compute_expected_error(32, name, 10_000) for name in ("randomized_response", "square_wave"))
    assert answers["hill"].mean > wave["hill"].mean


def test_an_end_set_by_the_user_is_kept():
    values = np.random.default_rng(1).normal(50, 5, 1000)
    assert propose(values, low=0).parameters()["low"] == 0
    assert propose(values, high=64.25).parameters()["high"] == 64.25
    assert propose(values, 0, 64.25).parameters() == {"low": 0, "high": 64.25}


@given(SAMPLES, st.text(min_size=1, max_size=20).filter(str.isprintable).filter(str.strip), st.floats(0.01, 20))
def test_the_printed_file_defines_the_same_collection(values, name, epsilon):
    assume(values.min() < values.max())
    collection = Collection(name=name, epsilon=epsilon, unit="é: #", **propose(values).parameters())
    text = yaml_of(collection)
    assert parse_collections(text) == {name: collection}
    assert not {"scale: linear", "integer: false", "buckets: 1024"} & set(re.split(r"[,{}\n]\s*", text)), "defaults"


def test_the_printed_file_names_randomized_response_for_few_whole_numbers():
    collection = Collection(name="answer", epsilon=1, **propose(np.array([0.0, 1.0, 1.0])).parameters())
    assert parse_collections(yaml_of(collection)) == {"answer": collection}
    assert "    mechanism: randomized_response\n" in yaml_of(collection)


# The command ----------------------------------------------------------------------------------------------------------


def write_column(path, values, column="minutes"):
    frame = pl.DataFrame({"other": ["x"] * len(values), column: values})
    {".csv": frame.write_csv, ".tsv": lambda p: frame.write_csv(p, separator="\t"), ".parquet": frame.write_parquet,
     ".jsonl": frame.write_ndjson}[path.suffix](path)  # fmt: skip
    return f"{path}:{column}"


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_numbers_go_through_devices_pipeline_and_page(tmp_path, capsys, ending):
    values = np.random.default_rng(1).gamma(4, 9, 2000)
    source, output = write_column(tmp_path / f"data{ending}", values), tmp_path / "out"
    for epsilon in ("3", "4"):  # it replaces its own earlier files
        options = ["--unit", "minutes", "--epsilon", epsilon, "--output", str(output)]
        assert command.main(["try", source, *options]) == 0
        captured = capsys.readouterr()
    assert captured.err == ""
    assert "domain: 0 to 150 minutes, 1,024 buckets, at ε = 4" in captured.out
    assert "read 100,000 reports = accepted 100,000 + refused 0" in captured.out
    [estimate] = [line for line in captured.out.splitlines() if line.startswith("  2026-01-01 00:00 – 01:00")]
    assert abs(float(estimate.split()[5].replace(",", "")) - values.mean()) < 2  # twenty standard errors
    assert "    in truth" in captured.out
    text = (output / "collections.yaml").read_text()
    assert text in captured.out
    [collection] = parse_collections(text).values()
    assert (collection.name, collection.unit, collection.epsilon) == ("minutes", "minutes", 4.0)
    assert (output / "page.html").resolve().as_uri() in captured.out
    assert b"minutes" in (output / "page.html").read_bytes()
    truth = json.loads((output / "truth.jsonl").read_text())
    assert truth["reports"] == 100_000


def try_numbers(path, *options):
    assert command.main(["try", *options, "--output", str(path)]) == 0


@pytest.mark.slow
def test_try_counts_missing_and_clipped_values_and_trusts_its_own_domain(tmp_path, capsys):
    rng = np.random.default_rng(1)
    values = [*rng.exponential(20, 2000), *[0.25] * 30_000, 900.0, 901.0, None]
    source = write_column(tmp_path / "data.csv", values)
    try_numbers(tmp_path / "out", source)
    output = capsys.readouterr().out
    assert "1 of 32,003 values is missing, and left out\n32,002 values from " in output
    low, high = re.search(r"domain: ([\d.]+) to ([\d.]+), ", output).groups()
    assert float(high) < 900
    [outside] = re.findall(r"outside the domain: (\d+) values, \S+ %; each counts as the nearest end\n", output)
    assert int(outside) == sum(value is not None and not float(low) <= value <= float(high) for value in values)
    assert "check the unit" not in output
    try_numbers(tmp_path / "out", source, "--high", high)  # an end that a person set may be wrong
    assert "check the unit and the domain" in capsys.readouterr().out


@pytest.mark.slow
def test_try_estimates_a_column_of_zeros_and_ones_by_randomized_response(tmp_path, capsys):
    try_numbers(tmp_path / "out", write_column(tmp_path / "data.csv", [1] * 1000 + [0] * 9000))
    output = capsys.readouterr().out
    assert "domain: 0 to 1, whole numbers, 2 buckets, by randomized_response, at ε = 1" in output
    [estimate] = [line for line in output.splitlines() if line.startswith("  2026-01-01 00:00 – 01:00")]
    assert abs(float(estimate.split()[5]) - 0.1) < 0.02  # six standard errors
    assert "    mechanism: randomized_response\n" in (tmp_path / "out" / "collections.yaml").read_text()


HOSTILE = {
    "missing column": ("a,b\n1,2\n", ":minutes", "no column 'minutes', the file has: a, b"),
    "no column named": ("a,b\n1,2\n", "", "which column? The file has: a, b; name one as"),
    "no numbers": ("minutes\nten\n", ":minutes", "got 'ten' in line 2, allowed: numbers"),
    "a text farther down": ("minutes\n1\n2\nabout 3\n", ":minutes", "got 'about 3' in line 4, allowed: numbers"),
    "a line too long": ("minutes\n1\n1,5\n", ":minutes", "line 3 has 2 columns, allowed: at most 1"),
    "nothing but gaps": ("minutes\nNA\nNaN\n", ":minutes", "the column is empty"),
    "infinite": ("minutes\n1\n-inf\n", ":minutes", "got -inf, allowed: finite numbers only"),
    "one value": ("minutes\n7\n7\n", ":minutes", "all values are 7.000, allowed: at least two different numbers"),
    "no rows": ("minutes\n", ":minutes", "the column is empty"),
    "empty file": ("", ":minutes", "the file is empty"),
    "huge": ("minutes\n1\n1e200\n", ":minutes", "got 1e+200, allowed: at most 1e150"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_input_ends_in_one_line(tmp_path, capsys, case):
    content, column, message = HOSTILE[case]
    path = tmp_path / "data.csv"
    path.write_text(content)
    assert command.main(["try", f"{path}{column}", "--output", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "50"], "--epsilon: got 50.0, allowed: a number from 1e-06 to 20"),
        (["--epsilon", "nan"], "--epsilon: got nan"),
        (
            ["--low", "100"],
            "--low: got 100, allowed: less than 2.500, where the proposed domain ends, or --high",
        ),
        (
            ["--high", "1"],
            "--high: got 1, allowed: more than 1.500, where the proposed domain begins, or --low",
        ),
        (["--low", "5", "--high", "4"], "--high: got 4.0, allowed: a number above low (5)"),
        (["--low=-inf"], "--low: got -inf"),
        (["--high", "1e200"], "--high: got 1e+200, allowed: a number from -1e+150 to 1e+150"),
        (["--high", "nan"], "--high: got nan, allowed: a number from"),
        (["--unit", "a\tb"], "--unit: got"),
    ],
)
def test_wrong_options_end_in_one_line(tmp_path, capsys, options, message):
    source = write_column(tmp_path / "data.csv", [1.5, 2.5])
    assert command.main(["try", source, *options, "--output", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


def test_try_refuses_an_output_folder_with_other_files(tmp_path, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    assert (
        command.main(["try", write_column(tmp_path / "data.csv", [1.5, 2.5]), "--output", str(tmp_path / "out")]) == 2
    )
    assert "holds other files" in capsys.readouterr().err
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years of work"
    assert len(list((tmp_path / "out").iterdir())) == 1
