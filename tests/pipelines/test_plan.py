"""`hushgram plan` as a person uses it: tables, pictures, shapes from any source, and mistakes reported in a line."""

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from hushgram import Collection, load_collections
from hushgram.config import parse_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.plan.command import DEFAULT_SHAPES, shapes_for
from hushgram.pipelines.plan.definition import changed_keys, yaml_lines
from hushgram.pipelines.plan.text import Plan, report_lines, rounded
from hushgram.pipelines.simulate.shapes import draw_for
from hushgram.planning import (
    BEST_SETS,
    Alternative,
    Level,
    Outlook,
    Shape,
    advise,
    alternatives,
    grid,
    width_alternatives,
)
from hushgram.simulation import Summary
from tests.helpers.documents import read_examples

ROOT = Path(__file__).parents[2]
YAML = """
collections:
  commute: {domain: {low: 0, high: 180, unit: minutes}, buckets: 32, epsilon: 2, groups: [DE, FR]}
  age: {domain: {low: 0, high: 127, integer: true}, buckets: 128, epsilon: 2, mechanism: hierarchy, branching: 2}
  bytes: {domain: {low: 1, high: 1000000, scale: log}, buckets: 32, epsilon: 2}
  mean: {domain: {low: 0, high: 1}, buckets: 64, epsilon: 2, mechanism: stochastic_rounding}
  seeded: {domain: {low: 0, high: 1}, buckets: 64, epsilon: 2, mechanism: seeded_hashing, bins: 16}
"""


@pytest.fixture
def collections(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text(YAML)
    return str(path)


def run_plan(collections, *options, name="commute"):
    return command.main(["plan", "--collections", collections, "--collection", name, "--runs", "2", *options])


def test_a_plan_prints_every_level_the_alternatives_and_advice(collections, capsys):
    assert (
        run_plan(collections, "--reports", "20000", "--groups", "10", "--windows", "4", "--target", "median ± 4") == 0
    )
    output = capsys.readouterr().out
    levels = [
        "one group, one window",
        "all groups, one window",
        "one group, all 4 windows",
        "all groups, all 4 windows",
    ]
    for level, reports in zip(levels, ("500", "5,000", "2,000", "20,000"), strict=True):
        [line] = [line for line in output.splitlines() if line.strip().startswith(f"{level}  ") and "±" in line]
        assert f" {reports} " in line
        assert ("too few: minimum_reports is 1,000" in line) == (reports == "500")
    # The smallest level that has enough is where others are tried.
    assert "What else could be, for all groups, one window (5,000 reports):" in output
    assert re.search(r"^(Keep|Take) ", output, re.MULTILINE)
    assert "0.01 is 1.8 minutes" in output
    assert "median ± 4 minutes: reports that one snapshot needs" in output
    for shape in DEFAULT_SHAPES:
        assert re.search(rf"^  {re.escape(shape)} +([0-9]|out of reach)", output, re.MULTILINE)


@pytest.mark.slow
def test_a_plan_warns_about_values_outside_of_the_domain(collections, capsys, tmp_path):
    (tmp_path / "v.csv").write_text("seconds,minutes,late\n1800,30,30\n5400,90,90\n2700,45,400\n")
    for column, message in (
        ("seconds", "seconds: 100 % of the values lie above 180 minutes, and count as 180: is the unit right?\n"),
        ("late", "% of the values lie above 180 minutes, and count as 180\n"),
    ):
        assert run_plan(collections, "--reports", "2000", "--shape", f"{tmp_path}/v.csv:{column}") == 0
        assert message in capsys.readouterr().out
    shapes = [argument for column in ("seconds", "minutes") for argument in ("--shape", f"{tmp_path}/v.csv:{column}")]
    assert run_plan(collections, "--reports", "2000", "--json", *shapes) == 0
    [caution] = json.loads(capsys.readouterr().out)["cautions"]
    assert "seconds: 100 % of the values lie above 180 minutes" in caution


@pytest.mark.slow
@pytest.mark.parametrize("name", ["age", "bytes", "mean", "seeded"])
def test_every_kind_of_collection_can_be_planned(collections, capsys, name):
    assert run_plan(collections, "--reports", "3000", "--target", "mean ± 0.4", name=name) == 0
    output = capsys.readouterr().out
    assert ("W1" in output) == (name != "mean")
    assert ("estimates the mean only" in output) == (name == "mean")
    assert ("simulated as local_hashing" in output) == (name == "seeded")


def test_the_groups_of_a_plan_are_those_of_the_collection(collections, capsys):
    assert run_plan(collections, "--reports", "3000", "--shape", "uniform") == 0
    output = capsys.readouterr().out
    assert "one group, one window" in output
    assert " 1,500 " in output


@pytest.mark.slow
def test_a_plan_divides_reports_by_slots_and_says_what_the_budget_means(tmp_path, capsys):
    path = tmp_path / "collections.yaml"
    budget = "device: {epsilon: 3, every: 7d, slots: 24}"
    path.write_text(f"collections: {{c: {{domain: {{low: 0, high: 1}}, buckets: 8, epsilon: 2, {budget}}}}}")
    arguments = ["plan", "--collections", str(path), "--shape", "uniform", "--runs", "2"]
    assert command.main([*arguments, "--reports", "240000"]) == 0
    text = capsys.readouterr().out
    assert "10,000 reports in all" in text
    assert "that is 1 in 24 of --reports: a device reports in one of 24 slots of each 1w" in text
    assert "a device makes at most 1 report in 1w, and 54 in a year: ε = 108 in all" in text
    assert "more ε" in text  # also where the budget would not allow it
    assert command.main([*arguments, "--reports", "240000", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["device"] == {"slots": 24, "reports_in_a_period": 1, "reports_in_a_year": 54}
    assert planned["levels"][-1]["reports"] == 10_000
    assert command.main([*arguments, "--reports", "20"]) == 2
    assert "divided by 24 slots" in capsys.readouterr().err


def test_a_plan_repeats_with_the_same_seed_and_differs_with_another(collections, tmp_path, capsys):
    results = []
    for number, seed in enumerate(("4", "4", "5")):
        picture = tmp_path / f"{number}.svg"
        assert run_plan(collections, "--reports", "2000", "--seed", seed, "--json", "--plot", str(picture)) == 0
        results.append((capsys.readouterr().out, picture.read_bytes()))
    assert results[0] == results[1]
    assert results[0] != results[2]


def test_the_json_of_a_plan_has_all_figures(collections, capsys):
    assert run_plan(collections, "--reports", "4000", "--json", "--target", "w1 0.03", "--shape", "uniform") == 0
    content = json.loads(capsys.readouterr().out)
    assert [level["reports"] for level in content["levels"]] == [2000, 4000]
    assert content["levels"][0]["figures"]["w1"]["uniform"]["runs"] == 2
    assert [other["change"] for other in content["alternatives"]][:3] == ["now", "epsilon", "epsilon"]
    assert sum(other["recommended"] for other in content["alternatives"]) == 1
    assert content["target"]["reports"]["uniform"] > 10
    commute = load_collections(collections)["commute"]
    assert content["lying_bound"] == commute.lying_bound(0.01)
    assert [level["central_epsilon"] for level in content["levels"]] == [
        commute.central_epsilon(2000),
        commute.central_epsilon(4000),
    ]
    assert 1 <= content["levels"][0]["figures"]["bins"]["uniform"]["mean"] <= 32


def test_a_plan_says_how_far_its_snapshots_will_be_trusted(collections, capsys):
    assert run_plan(collections, "--reports", "4000", "--shape", "uniform") == 0
    output, commute = capsys.readouterr().out, load_collections(collections)["commute"]
    [heading, *rows] = [line.split() for line in output.splitlines()[4:7]]
    assert heading[-2:] == ["central", "ε"]
    assert [row[-1] for row in rows] == [f"{commute.central_epsilon(reports):.2f}" for reports in (2000, 4000)]
    assert f"unnoticed, such a share could be off by {commute.lying_bound(0.01):.3f} besides" in output


# The estimator and the widths -----------------------------------------------------------------------------------------


def test_a_better_estimator_is_recommended_with_its_line_and_as_free_for_devices(collections, capsys):
    """EMS over 32 wide buckets smooths two hills by far too much: W1 is a multiple of the log-spline's."""
    arguments = ["--reports", "200000", "--groups", "1", "--shape", "bimodal"]
    assert run_plan(collections, *arguments) == 0
    output = capsys.readouterr().out
    assert "\nTake square_wave with log_spline, 32 buckets: its W1 is " in output
    assert (
        "beyond the noise of the simulation.\nDevices change nothing, and reports that were already collected" in output
    )
    assert output.endswith("\nIn the collections file:\n  estimator: log_spline\n")
    assert run_plan(collections, *arguments, "--json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["definition"] == {"estimator": "log_spline"}
    [advised] = [other for other in content["alternatives"] if other["recommended"]]
    assert (advised["change"], advised["estimator"]) == ("estimator", "log_spline")
    widths = [other["widths"] for other in content["alternatives"] if other["change"] == "widths"]
    assert [tuple(each) for each in widths] == [BEST_SETS[2.0]]
    assert "estimator: log_spline" not in content["recommendation"]


def make_plan(collection, tried):
    """A plan with the given errors of the collection and its alternatives, each known to a hundredth."""
    outlooks = [
        (other, Outlook(other.collection, 5000, {"w1": {"s": Summary(w1, w1 / 100, 8)}})) for other, w1 in tried
    ]
    level = Level("one window", 5000, 1.0)
    return Plan(
        request=collection,
        collection=collection,
        shapes=[Shape("s", np.ones(1))],
        levels=[(level, outlooks[0][1])],
        chosen=level,
        tried=outlooks,
        advice=advise(outlooks),
        rolled_up=None,
        target=None,
        needs={},
    )


def test_widths_are_recommended_with_what_the_estimator_alone_would_bring():
    now = Collection(name="c", low=0, high=1, epsilon=1.0, smoothing="adaptive")
    spline, both = (
        Alternative("estimator", replace(now, smoothing=None, estimator="log_spline")),
        Alternative("widths", replace(now, smoothing=None, estimator="log_spline", widths=[0.5, 1])),
    )
    lines = list(report_lines(make_plan(now, [(Alternative("now", now), 0.10), (spline, 0.08), (both, 0.05)])))
    assert lines[-9:] == [
        "Take square_wave with log_spline, 1,024 buckets, widths 0.5 1: its W1 is 0.050 instead of 0.10.",
        "That is 50 % less, beyond the noise of the simulation.",
        "It changes what devices send: they need the new definition, and their reports have a new revision.",
        "With log_spline alone, and no change on devices, it is 0.080: 20 % less.",
        "log_spline may smooth over jumps and narrow peaks: --shape tries it on values of your own.",
        "In the collections file:",
        "  estimator: log_spline",
        "  widths: [0.5, 1]",
        "  # and without smoothing",
    ]
    [row] = [line for line in lines if line.startswith("  widths 0.5 1  ")]
    assert "square_wave with log_spline, 1,024 buckets  " in row
    lines = list(report_lines(make_plan(both.collection, [(Alternative("now", both.collection), 0.10)])))
    assert lines[0].endswith("; square_wave with log_spline, 1,024 buckets, widths 0.5 1; ε = 1")
    assert lines[-1].startswith("Keep ")


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"smoothing": "adaptive", "widths": [0.25, 1]},
        {"estimator": "log_spline"},
        {"mechanism": "hierarchy", "branching": 2, "solver": "admm"},
        {"mechanism": "local_hashing", "bins": 16},
        {"mechanism": "stochastic_rounding"},
    ],
)
def test_the_lines_for_the_file_make_the_recommended_collection(now):
    """For every alternative: written into the entry as it was, they are a valid file, and it is that collection."""
    entry = {"domain": {"low": 0, "high": 1}, "buckets": 256, "epsilon": 1.0, **now}
    [present] = parse_collections(yaml.safe_dump({"collections": {"c": entry}})).values()
    tried = alternatives(present)
    tried += width_alternatives(make_plan(present, [(other, 0.1) for other in tried]).tried)
    for other in tried:
        if other.kind == "epsilon":
            continue
        changed = changed_keys(other.collection, present)
        assert bool(changed) == (other.kind != "now")
        written = yaml.safe_load("\n".join(yaml_lines(changed))) or {}
        kept = {key: value for key, value in entry.items() if key not in changed}
        [made] = parse_collections(yaml.safe_dump({"collections": {"c": {**kept, **written}}})).values()
        assert made == other.collection


@pytest.mark.slow
def test_pictures_of_a_plan_are_valid_image_files(collections, tmp_path, capsys):
    for name in ("commute", "mean"):
        assert run_plan(collections, "--reports", "2000", "--plot", str(tmp_path / f"{name}.png"), name=name) == 0
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert run_plan(collections, "--reports", "2000", "--plot", str(tmp_path / "x.svg"), "--target", "p90 ± 9") == 0
    assert ElementTree.parse(tmp_path / "x.svg").getroot().tag.endswith("svg")
    assert f"The picture is in {tmp_path}/x.svg." in capsys.readouterr().out


WRONG = [
    (["--reports", "0"], "--reports: got 0, allowed: a whole number from 1"),
    (["--reports", "99999999999"], "--reports: got 99999999999"),
    (["--reports", "5", "--groups", "10"], "--reports: got 5, allowed: at least one for each group and window"),
    (["--groups", "0"], "--groups: got 0"),
    (["--windows", "0"], "--windows: got 0"),
    (["--runs", "1"], "--runs: got 1, allowed: a whole number from 2"),
    (["--seed", "-1"], "--seed: got -1"),
    (["--collection", "other"], "--collection: got 'other', allowed: commute, age"),
    (["--shape", "nonsense"], "--shape: got 'nonsense', allowed: "),
    (["--shape", "beta(1)"], "--shape beta(1): "),
    (["--shape", "README.md"], "--shape README.md: allowed: counts as .json"),
    (["--shape", "tests"], "tests: no snapshots there"),
    (["--target", "soon"], "--target: got 'soon', allowed: such as 'median ± 2'"),
    (["--target", "median ± 2 hours"], "allowed: the collection's unit, minutes"),
    (["--plot", "plan.pdf"], "--plot: got 'plan.pdf', allowed: a file that ends in .png or .svg"),
    (["--plot", "/nowhere/plan.png"], "--plot /nowhere/plan.png: there is no folder /nowhere"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_a_wrong_option_of_plan_ends_with_one_line(collections, capsys, arguments, message):
    options = arguments if "--reports" in arguments else ["--reports", "1000", *arguments]
    assert run_plan(collections, *options) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("hushgram: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_one_of_several_collections_must_be_named(collections, tmp_path, capsys):
    assert command.main(["plan", "--collections", collections, "--reports", "1000"]) == 2
    assert "--collection: missing, allowed: commute, age" in capsys.readouterr().err
    (tmp_path / "one.yaml").write_text("collections: {a: {domain: {low: 0, high: 1}, buckets: 16, epsilon: 1}}")
    assert command.main(["plan", "--collections", f"{tmp_path}/one.yaml", "--reports", "1000", "--runs", "2"]) == 0


def test_without_matplotlib_a_line_says_what_to_install(collections, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    assert run_plan(collections, "--reports", "1000", "--plot", "plan.png") == 2
    assert capsys.readouterr().err == "hushgram: --plot: matplotlib is not installed; pip install 'hushgram[plot]'\n"


@pytest.mark.slow
def test_planning_imports_nothing_that_it_does_not_need(collections):
    code = (
        "import sys; from hushgram.pipelines.cli import command; "
        f"command.main(['plan', '--collections', {collections!r}, '--collection', 'commute', '--reports', '99', "
        "'--runs', '2']); "
        "print([m for m in ('apache_beam', 'polars', 'fastavro', 'matplotlib') if m in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert output.endswith("\n[]\n")


@pytest.mark.slow
def test_the_documents_show_the_output_of_plan(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    [example], [expected] = (read_examples("plan.md", "An example", language) for language in ("sh", "text"))
    assert command.main(shlex.split(example)[1:]) == 0
    assert capsys.readouterr().out == expected


# Shapes ---------------------------------------------------------------------------------------------------------------


def read_shares(collections, text, name="commute"):
    [shape], _ = shapes_for(load_collections(collections)[name], [text], seed=1)
    assert shape.distribution.sum() == pytest.approx(1)
    return shape.distribution


@pytest.mark.slow
def test_shapes_fill_the_domain(collections):
    for name in ("commute", "age", "bytes"):
        for text in (*DEFAULT_SHAPES, "taxi"):
            distribution = read_shares(collections, text, name)
            assert distribution.size == grid(load_collections(collections)[name])
            assert (distribution.reshape(8, -1).sum(axis=1) > 0).sum() >= 4
    assert read_shares(collections, "normal(90,10)")[: grid(load_collections(collections)["commute"]) // 4].sum() < 1e-4
    # Placed over the domain without numbers, in units with them: e¹ minutes are near its beginning.
    assert read_shares(collections, "lognormal").argmax() > read_shares(collections, "lognormal(1,0.1)").argmax() > 0


def test_a_histogram_is_a_shape_whatever_file_it_is_in(collections, tmp_path):
    counts = [0, 3, 1, 0]
    (tmp_path / "a.json").write_text(json.dumps(counts))
    (tmp_path / "a.csv").write_text("counts,x\n0,1\n3,1\n1,1\n0,1\n")
    np.savez(tmp_path / "a.npz", counts=counts)
    for ending in ("json", "csv", "npz"):
        distribution = read_shares(collections, f"{tmp_path}/a.{ending}").reshape(4, -1).sum(axis=1)
        assert distribution == pytest.approx([0, 0.75, 0.25, 0], abs=0.005)  # a million values: ten standard errors


@pytest.mark.parametrize(
    "content", ["[]", "[1]", "[0, 0]", "[1, -1]", "[[1, 2], [3, 4]]", "{}", '["a", "b"]', "x", "[1, NaN]"]
)
def test_a_file_that_is_not_a_histogram_is_refused_with_a_reason(collections, tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UsageError, match=rf"--shape {tmp_path}/a\.json: \S"):
        read_shares(collections, f"{tmp_path}/a.json")


def test_a_plan_tells_which_values_are_missing(collections, tmp_path):
    (tmp_path / "v.csv").write_text("minutes,x\n30,1\nNA,1\n,1\n90,1\n")
    _, cautions = shapes_for(load_collections(collections)["commute"], [f"{tmp_path}/v.csv:minutes"], seed=1)
    assert cautions == [f"{tmp_path}/v.csv:minutes: 2 of 4 values are missing, and left out"]


@example("\n:")
@given(st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"])))
def test_any_text_is_a_shape_or_refused_in_a_line(text):
    commute = load_collections(ROOT / "examples" / "demo.yaml")["pickup"]
    message = ""
    try:
        draw_for(commute, text, "--shape")
    except UsageError as error:
        message = str(error)
    assert message == "" or message.startswith("--shape")
    assert "\n" not in message


@pytest.mark.slow
def test_an_earlier_run_is_a_shape(collections, tmp_path, capsys):
    """Its estimates are planned with, and simulated again; a window with too few reports is not used."""
    reports, results = str(tmp_path / "reports"), str(tmp_path / "results")
    common = ["--collections", collections, "--collection", "commute", "--values", "normal(45,5)"]
    assert command.main(["simulate", *common, "--reports", "4000", "--hours", "1", "--output", reports]) == 0
    aggregation = ["--collections", collections, "--input", f"{reports}/*.avro", "--output", results]
    assert command.main(["aggregate", *aggregation]) == 0
    distribution = read_shares(collections, results)
    assert distribution.reshape(4, -1).sum(axis=1).argmax() in (0, 1)
    assert distribution[: distribution.size // 2].sum() > 0.9
    assert run_plan(collections, "--reports", "4000", "--shape", results) == 0
    assert f"simulated on the shape {results}" in capsys.readouterr().out
    assert run_plan(collections, "--reports", "4000", "--shape", results, name="age") == 2
    assert "no snapshot of age with a distribution to go by: there is none" in capsys.readouterr().err
    few = str(tmp_path / "few")
    assert command.main(["simulate", *common, "--reports", "40", "--hours", "1", "--output", f"{few}/reports"]) == 0
    aggregation = ["--collections", collections, "--input", f"{few}/reports/*.avro", "--output", f"{few}/results"]
    assert command.main(["aggregate", *aggregation]) == 0
    assert run_plan(collections, "--reports", "4000", "--shape", f"{few}/results") == 2
    assert "merge windows with hushgram rollup" in capsys.readouterr().err


@given(st.floats(1, 1e12))
def test_reports_are_rounded_up_to_two_digits(reports):
    result = rounded(reports)
    assert reports <= result <= 1.1 * reports + 1
    assert len(str(result).rstrip("0")) <= 2
