"""`hushgram simulate --group-values`: groups that differ, others that do not, and the truth of each."""

import json

import fastavro
import numpy as np
import pytest

from hushgram.pipelines.cli import command

YAML = """
collections:
  commute: {domain: {low: 0, high: 100}, buckets: 16, epsilon: 1, groups: [DE, DE=x, FR]}
  steps: {domain: {low: 0, high: 10}, buckets: 16, epsilon: 1}
"""


@pytest.fixture
def simulate(tmp_path):
    (tmp_path / "collections.yaml").write_text(YAML)

    def run(*options, name="reports"):
        common = [
            "--collections",
            f"{tmp_path}/collections.yaml",
            "--reports",
            "4000",
            "--output",
            f"{tmp_path}/{name}",
        ]
        return command.main(["simulate", *common, "--values", "normal(20,1)", *options])

    return run


def read_truth(folder):
    """Means of all windows by collection and group."""
    means = {}
    for line in map(json.loads, (folder / "truth.jsonl").read_text().splitlines()):
        means.setdefault((line["collection"], line["group"]), []).append(line["mean"])
    return {key: np.mean(values) for key, values in means.items()}


def read_cells(folder):
    records = []
    for path in sorted(folder.glob("*.avro")):
        with path.open("rb") as file:
            records += [(record["collection"], record["cell"], record["group"]) for record in fastavro.reader(file)]
    return records


def test_each_group_measures_its_own_values_and_the_others_measure_those_of_all(simulate, tmp_path):
    """A mean of some 1,300 values with deviation 1 is off by 0.2 with odds of one in 10¹²."""
    assert simulate("--group-values", "DE=normal(40,1)", "--group-values", "DE=x=normal(60,1)") == 0
    means = read_truth(tmp_path / "reports")
    assert means["commute", "DE"] == pytest.approx(40, abs=0.2)
    assert means["commute", "DE=x"] == pytest.approx(60, abs=0.2)
    assert means["commute", "FR"] == pytest.approx(20, abs=0.2)
    assert means["commute", None] == pytest.approx(40, abs=2)
    assert means["steps", None] == pytest.approx(10)  # clipped, and without such groups


def test_an_equal_command_repeats_its_reports_and_other_values_have_reports_of_their_own(simulate, tmp_path):
    for name, options in {
        "plain": [],
        "first": ["--group-values", "DE=uniform", "--group-values", "FR=beta(5,2)"],
        "second": ["--group-values", "FR=beta(5,2)", "--group-values", "DE=uniform"],
        "third": ["--group-values", "DE=uniform", "--group-values", "FR=beta(5,3)"],
    }.items():
        assert simulate("--collection", "commute", *options, name=name) == 0
    plain, first, second, third = (read_cells(tmp_path / name) for name in ("plain", "first", "second", "third"))
    assert first == second
    assert first != third
    assert first != plain


def test_missing_values_of_a_group_are_counted(simulate, tmp_path, capsys):
    (tmp_path / "values.csv").write_text("x\n5\nNA\n")
    assert simulate("--group-values", f"FR={tmp_path}/values.csv:x") == 0
    assert "values.csv:x: 1 of 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["UK=uniform"], "got UK=uniform, allowed: GROUP=VALUES with one of the groups DE, DE=x, FR"),
        (["uniform"], "got uniform, allowed: GROUP=VALUES with one of the groups DE, DE=x, FR"),
        (["DE=uniform", "DE=bimodal"], "got DE twice, allowed: once for each group"),
        (["DE=gausian(1,2)"], "--group-values: got 'gausian(1,2)', allowed: "),
        (["DE=beta(5)"], "--group-values beta(5): got 1 numbers, allowed: 2 numbers"),
        (["FR=/nowhere.csv:x"], "--group-values /nowhere.csv:x: no such file or directory"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(simulate, tmp_path, capsys, options, message):
    assert simulate(*(part for option in options for part in ("--group-values", option))) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "reports").exists()


def test_a_collection_without_groups_has_none_to_name(simulate, capsys):
    assert simulate("--collection", "steps", "--group-values", "DE=uniform") == 2
    assert "one of the groups none, the collection lists no groups" in capsys.readouterr().err
