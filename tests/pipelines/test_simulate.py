"""`hushgram simulate` and its seed: an equal command repeats its reports, any other shares neither noise nor ids."""

import re

import fastavro
import numpy as np
import pytest

from hushgram import load_collections
from hushgram.pipelines.cli import command

REPORTS = 5000
LAW = "domain: {low: 0, high: 1}, buckets: 16, epsilon: 1"
YAML = f"collections: {{first: {{{LAW}}}, second: {{{LAW}}}}}"


@pytest.fixture
def simulate(tmp_path):
    """The records that a command writes. All values are 0.5, unless the file of values was changed."""
    (tmp_path / "collections.yaml").write_text(YAML)
    (tmp_path / "values.csv").write_text("x\n0.5\n")

    def run(collection="first", *options):
        output = tmp_path / f"reports{len(list(tmp_path.iterdir()))}"
        common = ["--collections", f"{tmp_path}/collections.yaml", "--collection", collection, "--ids"]
        common += ["--values", f"{tmp_path}/values.csv:x", "--reports", str(REPORTS), "--output", str(output)]
        assert command.main(["simulate", *common, *options]) == 0
        records = []
        for path in sorted(output.glob("*.avro")):
            with path.open("rb") as file:
                records += fastavro.reader(file)
        return records

    return run


def test_commands_with_one_seed_share_neither_noise_nor_ids(simulate, tmp_path):
    c = load_collections(tmp_path / "collections.yaml")["first"]
    law = c.mechanism.forward(np.eye(c.buckets)[c.buckets // 2])
    chance = float((law**2).sum())  # that the cells of two devices are equal
    records = [simulate("first"), simulate("second"), simulate("first", "--start", "2026-01-02T00:00Z")]
    (tmp_path / "values.csv").write_text("x\n0.501\n")
    records.append(simulate("first"))
    cells = np.array([[record["cell"] for record in records_of_command] for records_of_command in records])
    for first in range(len(records)):
        for second in range(first):
            # Six standard deviations: each pair fails by chance once in 10⁹. With the same noise, all would be equal.
            equal = (cells[first] == cells[second]).mean()
            assert abs(equal - chance) < 6 * np.sqrt(chance * (1 - chance) / REPORTS), (first, second)
    ids = [{record["id"] for record in records_of_command} for records_of_command in records[:3]]
    assert len(set().union(*ids)) == 3 * REPORTS


def test_an_equal_command_repeats_its_reports(simulate):
    first, second, packed = simulate(), simulate(), simulate("first", "--packed")
    assert first == second
    assert first != simulate("first", "--seed", "1")
    assert sorted(record["cell"] for record in first) == sorted(b"".join(batch["cells"] for batch in packed))


def test_packed_reports_may_have_an_id_each(simulate):
    packed = simulate("first", "--packed", "--ids", "reports")
    assert all(batch["id"] is None and len(batch["ids"]) == 16 * len(batch["cells"]) for batch in packed)
    ids = b"".join(batch["ids"] for batch in packed)
    assert len({ids[at : at + 16] for at in range(0, len(ids), 16)}) == REPORTS
    assert {batch["event_time"].minute for batch in packed} == {0}, "times are cut, since they are those of all reports"
    assert sorted(b"".join(batch["cells"] for batch in packed)) == sorted(report["cell"] for report in simulate())


@pytest.mark.slow
def test_values_drawn_with_the_same_seed_are_independent_of_the_noise(simulate, tmp_path):
    """The values are the first draws of the generator that people usually seed."""
    c = load_collections(tmp_path / "collections.yaml")["first"]
    errors = []
    for seed in range(20):
        values = np.random.default_rng(seed).random(REPORTS)
        (tmp_path / "values.csv").write_text("\n".join(["x", *map(str, values)]))
        cells = [record["cell"] for record in simulate("first", "--seed", str(seed))]
        estimate = c.estimate(c.tally(cells))
        low, high = estimate.interval("mean")
        errors.append((estimate.mean - values.mean()) / (high - low))
    # An interval is four standard deviations long: the mean of 20 errors, in lengths, deviates by 0.056.
    assert abs(np.mean(errors)) < 6 * 0.056


def test_help_states_the_default_seed(capsys):
    defaults = {}
    for name in command.COMMANDS:
        with pytest.raises(SystemExit):
            command.main([name, "--help"])
        text = " ".join(capsys.readouterr().out.split())
        if "--seed" in text:
            defaults[name] = re.search(r"--seed N (?!.*--seed)[^-]*?\(default: ([0-9]+)\)", text)[1]
    assert defaults == {"plan": "1", "simulate": "0"}


def test_a_registry_without_effect_is_refused(tmp_path, capsys):
    (tmp_path / "collections.yaml").write_text(YAML)
    live = ["--kafka", "nowhere:1", "--topic", "reports", "--schema-registry", "http://nowhere:1"]
    assert command.main(["simulate", "--collections", str(tmp_path / "collections.yaml"), *live]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--schema-registry: only with --framed" in line
