"""The command line: help, mistakes that end at once with a line to act on, and simulation."""

import json
import re
from dataclasses import replace

import fastavro
import numpy as np
import pytest

from hushgram import load_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.results import read_results
from hushgram.pipelines.show import bars, pane_line
from hushgram.schemas.records import Events, Histogram, Snapshot
from hushgram.transforms.sinks.files import safe_name
from tests.helpers.pages import COMMUTE, make_estimate

YAML = """
collections:
  commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 4, groups: [DE, FR], windows: {size: 1h}}
  age: {domain: {low: 0, high: 63, integer: true}, buckets: 64, epsilon: 4, windows: {size: 2h, every: 1h}}
"""


@pytest.fixture
def collections(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text(YAML)
    return str(path)


@pytest.mark.parametrize("packed", [[], ["--packed"]], ids=["single", "packed"])
@pytest.mark.parametrize("ids", [[], ["--ids"]], ids=["no ids", "ids"])
def test_aggregated_snapshots_hold_the_truth_of_simulated_reports(collections, tmp_path, packed, ids):
    simulation = ["--collections", collections, "--reports", "6000", "--hours", "3", "--values", "beta(5,2)"]
    assert command.main(["simulate", *simulation, "--output", str(tmp_path / "r"), *packed, *ids]) == 0
    aggregation = [
        "--collections",
        collections,
        "--input",
        str(tmp_path / "r" / "*.avro"),
        "--output",
        str(tmp_path / "o"),
    ]
    assert command.main(["aggregate", *aggregation]) == 0
    truth = [json.loads(line) for line in (tmp_path / "r" / "truth.jsonl").read_text().splitlines()]
    snapshots = {
        (s.key.collection, s.key.group, s.key.window_start): s
        for s in read_results(str(tmp_path / "o"), "snapshots", Snapshot.from_avro)
    }
    assert set(snapshots) == {(entry["collection"], entry["group"], entry["window_start"]) for entry in truth}
    hits = []
    for entry in truth:
        s = snapshots[entry["collection"], entry["group"], entry["window_start"]]
        assert s.reports == entry["reports"]
        hits.append(s.mean_low <= entry["mean"] <= s.mean_high)
    assert np.mean(hits) > 0.8  # at 95 %, 13 or more of 16 hold but for once in 1000; the seed is fixed


def test_the_truth_of_simulated_days_is_that_of_the_zone(tmp_path):
    """And no batch of reports holds those of two days."""
    zone = "time_zone: Europe/Berlin"
    windows = f"{{size: 1d, max_age: 30d, {zone}}}"
    yaml = f"collections: {{c: {{domain: {{low: 0, high: 9}}, buckets: 16, epsilon: 4, windows: {windows}}}}}"
    (tmp_path / "c.yaml").write_text(yaml)
    arguments = ["--collections", str(tmp_path / "c.yaml"), "--start", "2026-03-28", "--hours", "72", "--packed"]
    assert command.main(["simulate", *arguments, "--reports", "3000", "--output", str(tmp_path / "r")]) == 0
    truth = [json.loads(line) for line in (tmp_path / "r" / "truth.jsonl").read_text().splitlines()]
    days = {(entry["window_start"], entry["window_end"]): entry["reports"] for entry in truth}
    assert [(end - start) // 3_600_000 for start, end in days] == [24, 23, 24, 24]
    assert sum(days.values()) == 3000
    run = ["aggregate", *arguments[:2], "--input", str(tmp_path / "r" / "*.avro"), "--output", str(tmp_path / "o")]
    assert command.main([*run, "--as-of", "2026-04-01"]) == 0
    snapshots = read_results(str(tmp_path / "o"), "snapshots", Snapshot.from_avro)
    assert {(s.key.window_start, s.key.window_end): s.reports for s in snapshots} == days


@pytest.mark.parametrize("packed", [[], ["--packed"]], ids=["single", "packed"])
@pytest.mark.parametrize("ids", [[], ["--ids"]], ids=["no ids", "ids"])
def test_windows_know_their_events_and_show_notes_where_the_log_cuts_them(collections, tmp_path, capsys, packed, ids):
    common = ["--collections", collections]
    period = ["--start", "2026-01-01T05:12Z", "--hours", "2.3"]
    reports, results, day = (str(tmp_path / name) for name in ("r", "o", "d"))
    simulation = ["--reports", "9000", *period, "--output", reports, *packed, *ids]
    assert command.main(["simulate", *common, *simulation]) == 0
    assert command.main(["aggregate", *common, "--input", f"{reports}/*.avro", "--output", results]) == 0
    expected, settings = {}, {name: c.windows for name, c in load_collections(collections).items()}
    for path in (tmp_path / "r").glob("*.avro"):
        with path.open("rb") as file:
            for row in fastavro.reader(file):
                time = int(row["event_time"].timestamp() * 1000 + 0.5)
                for begin, _ in settings[row["collection"]].holding(time):
                    for group in {None, row["group"]}:
                        expected.setdefault((row["collection"], group, begin), []).append(time)
    for kind, make in (("snapshots", Snapshot.from_avro), ("histograms", Histogram.from_avro)):
        events = {
            (r.key.collection, r.key.group, r.key.window_start): r.events for r in read_results(results, kind, make)
        }
        assert events == {key: Events(min(times), max(times), len(times)) for key, times in expected.items()}
    rollup = ["--input", f"{results}/histograms", "--window", "1d", "--output", day]
    assert command.main(["rollup", *common, *rollup]) == 0
    for s in read_results(day, "snapshots", Snapshot.from_avro):
        matching = [times for key, times in expected.items() if key[:2] == (s.key.collection, s.key.group)]
        assert (s.events.first, s.events.last) == (min(map(min, matching)), max(map(max, matching)))
    outputs = []
    for directory in (results, day):
        capsys.readouterr()
        assert command.main(["show", directory]) == 0
        outputs.append(capsys.readouterr().out.strip())
    hours, days = outputs
    if packed:  # a few uploads in a window do not show when the log began
        assert "inside this window" not in hours + days
        return
    age, commute = (re.split(r"\n  (?=2026)", part)[1:] for part in hours.split("\n\n"))  # notes stand below their row
    assert commute[0].endswith("\n    the log begins at 05:12, inside this window")
    assert ["inside this window" in row for row in commute] == [True, False, True]
    assert re.search(r"\n    the log ends at 07:(29|30), inside this window$", commute[2], re.MULTILINE)
    assert ["begins" in row for row in age] == [True, True, False, False]
    assert ["ends" in row for row in age] == [False, False, True, True]
    assert "    the log begins at 05:12, inside this window\n    the log ends at 07:" in days


def test_the_same_seed_makes_the_same_reports(collections, tmp_path):
    contents = []
    for name in ("a", "b"):
        arguments = ["--collections", collections, "--reports", "500", "--output", str(tmp_path / name), "--seed", "3"]
        assert command.main(["simulate", *arguments]) == 0
        contents.append((tmp_path / name / "truth.jsonl").read_text())
    assert contents[0] == contents[1]


COLUMNS = {
    "seconds": "commute: 100 % of the values lie above 180, and count as 180: is the unit right?",
    "hours": "commute: 100 % of the values are at most 11.25, of a domain from 0 to 180: is the unit right?",
    "minutes": None,
    "low": "of the values lie below 0, and count as 0\n",
}


@pytest.mark.parametrize("column", COLUMNS)
def test_simulation_and_estimate_warn_about_values_outside_of_the_domain(collections, tmp_path, capsys, column):
    rows = "".join(f"{60 * m},{m / 60},{m},{m - 40}\n" for m in range(21, 171))
    (tmp_path / "v.csv").write_text(f"seconds,hours,minutes,low\n{rows}")
    selection = ["--collections", collections, "--collection", "commute", "--hours", "1", "--reports", "9000"]
    values = ["--values", f"{tmp_path}/v.csv:{column}"]
    assert command.main(["simulate", *selection, *values, "--output", str(tmp_path / "r")]) == 0
    output = capsys.readouterr().out
    assert ("of the values" in output) == (COLUMNS[column] is not None)
    assert (COLUMNS[column] or "") in output
    aggregation = ["--collections", collections, "--input", f"{tmp_path}/r/*.avro", "--output", f"{tmp_path}/o"]
    assert command.main(["aggregate", *aggregation]) == 0
    capsys.readouterr()
    assert command.main(["show", f"{tmp_path}/o"]) == 0
    table = capsys.readouterr().out
    heavy = {"seconds": "high", "hours": "low"}.get(column)
    assert (f"of values seem to lie at the {heavy} end of the domain or beyond it" in table) == (heavy is not None)
    [whole] = [s for s in read_results(f"{tmp_path}/o", "snapshots", Snapshot.from_avro) if s.key.group is None]
    assert (whole.heavy_low_end is not None, whole.heavy_high_end is not None) == (heavy == "low", heavy == "high")


def test_simulation_of_a_mean_only_mechanism_warns_about_values_outside_of_the_domain(tmp_path, capsys):
    path = tmp_path / "mean.yaml"
    path.write_text("collections: {load: {domain: {low: 0, high: 1, unit: cores}, epsilon: 1, mechanism: piecewise}}")
    arguments = ["--collections", str(path), "--values", "normal(50,1)", "--reports", "100", "--output", str(tmp_path)]
    assert command.main(["simulate", *arguments]) == 0
    assert "load: 100 % of the values lie above 1 cores, and count as 1: is the unit right?" in capsys.readouterr().out


def test_simulated_values_come_from_a_file_and_missing_ones_are_counted(collections, tmp_path, capsys):
    (tmp_path / "v.csv").write_text("minutes;x\n30;1\nNA;1\n90;2\n")
    arguments = ["simulate", "--collections", collections, "--collection", "commute", "--reports", "100"]
    arguments += ["--output", str(tmp_path / "r"), "--hours", "1"]
    assert command.main([*arguments, "--values", f"{tmp_path}/v.csv:minutes"]) == 0
    assert f"{tmp_path}/v.csv:minutes: 1 of 3 values is missing, and left out\n" in capsys.readouterr().out
    truth = [json.loads(line) for line in (tmp_path / "r" / "truth.jsonl").read_text().splitlines()]
    assert 30 <= truth[0]["mean"] <= 90


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        (
            "minutes,city\n30,Berlin\n",
            "minute",
            "no column 'minute', the file has: minutes, city (did you mean minutes?)",
        ),
        ("minutes,city\n30,Berlin\n", "x", "no column 'x', the file has: minutes, city; name one as "),
        ("minutes,city\n30,Berlin\n", None, "no column 'counts', the file has: minutes, city; name one as "),
        ("minutes,city\n30,Berlin\n", "city", "column 'city': got 'Berlin' in line 2, allowed: numbers"),
        ("x\n" + "1\n" * 1000 + "one\n", "x", "column 'x': got 'one' in line 1002, allowed: numbers"),
        ("x\n1\ninf\n", "x", "got inf, allowed: finite numbers only"),
        ("x\n", "x", "the column is empty, allowed: at least one number"),
        ("", "x", "the file is empty"),
        (",".join(f"c{i}" for i in range(50)), "x", "c18, c19, …; name one as "),
    ],
)
def test_a_wrong_file_of_values_is_refused_with_a_reason(collections, tmp_path, capsys, content, column, message):
    (tmp_path / "v.csv").write_text(content)
    values = f"{tmp_path}/v.csv" + (f":{column}" if column else "")
    arguments = ["--collections", collections, "--values", values, "--output", str(tmp_path / "out")]
    assert command.main(["simulate", *arguments]) == 2
    errors = capsys.readouterr().err
    assert f"--values {values}: " in errors
    assert message in errors
    assert errors.count("\n") == 1


def test_spaces_and_gaps_in_a_column_of_numbers(collections, tmp_path):
    from hushgram.pipelines.simulate.shapes import draw_for

    (tmp_path / "v.csv").write_text("x,y\n 30 ,1\n,2\n1e2,3\n")
    values = draw_for(load_collections(collections)["commute"], f"{tmp_path}/v.csv:x")(1000, np.random.default_rng(1))
    assert set(values) == {30.0, 100.0}


WRONG = [
    (["simulate", "--values", "nonsense"], "--values: got 'nonsense', allowed: "),
    (["simulate", "--values", "beta(5)"], "--values beta(5)"),
    (["simulate", "--values", "beta(-1,2)"], "--values beta(-1,2)"),
    (["simulate", "--values", "unifrom"], "results (did you mean uniform?)"),
    (["simulate", "--values", "gamma(4)"], "--values gamma(4): got 1 numbers, allowed: 2 numbers, shape and scale"),
    (["simulate", "--values", "/nowhere.csv:x"], "--values /nowhere.csv:x: no such file or directory: /nowhere.csv"),
    (["simulate", "--values", "nowhere.json"], "--values nowhere.json: no such file or directory: nowhere.json"),
    (["simulate", "--values", "nowhere/results"], "no such file or directory: nowhere/results"),
    (["simulate", "--collection", "other"], "--collection: got 'other', allowed: commute, age"),
    (["simulate", "--collection", "comute"], "allowed: commute, age (did you mean commute?)"),
    (["simulate", "--reports", "0"], "--reports: got 0, allowed: more than zero, at most 1,000,000,000"),
    (["simulate", "--hours", "-1"], "--hours: got -1, allowed: more than zero"),
    (["simulate", "--seed", "-1"], "--seed: got -1, allowed: a whole number of zero or more"),
    (["simulate", "--start", "yesterday"], "--start: got 'yesterday'"),
    (["aggregate", "--input", "/nowhere/*.avro"], "--input /nowhere/*.avro: no such file"),
    (["aggregate", "--input", "tests"], "tests is a directory; name its files, such as 'tests/*.avro'"),
    (["aggregate", "--input", "README.md", "--as-of", "soon"], "--as-of: got 'soon'"),
    (["aggregate", "--input", "README.md", "--generation", "-1"], "--generation"),
    (["check", "--input", "/nowhere"], "no such file"),
    (["rollup", "--input", "/nowhere"], "/nowhere: no such directory"),
    (["rollup", "--input", "tests"], "tests: no histograms there"),
    (["rollup", "--input", "/nowhere", "--quantiles", "2"], "--quantiles: got '2'"),
    (["rollup", "--input", "/nowhere", "--window", "soon"], "--window: got 'soon'"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_a_wrong_option_of_any_command_ends_at_once_with_one_line(collections, tmp_path, capsys, arguments, message):
    options = ["--collections", collections]
    if arguments[0] != "check":
        options += ["--output", str(tmp_path / "out")]
    assert command.main([*arguments, *options]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("hushgram: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_parameters_of_unknown_revisions_are_recognised_with_advice_to_accept_them(collections, tmp_path, capsys):
    collections_option = ["--collections", collections]
    simulation = ["--collection", "commute", "--reports", "50", "--output", str(tmp_path / "r")]
    assert command.main(["simulate", *collections_option, *simulation]) == 0
    inputs = ["--input", str(tmp_path / "r" / "*.avro")]
    assert command.main(["aggregate", *collections_option, *inputs, "--output", str(tmp_path / "o")]) == 0
    revision = load_collections(collections)["commute"].revision
    changed = tmp_path / "changed.yaml"
    changed.write_text(YAML.replace("epsilon: 4, groups", "epsilon: 2, groups"))
    collections_option = ["--collections", str(changed)]
    capsys.readouterr()
    assert command.main(["check", *collections_option, *inputs]) == 1
    advice = "that of epsilon: 4.0; to accept it, list it as previous: [{epsilon: 4.0}]"
    assert f"revision {revision} of 'commute': {advice}" in capsys.readouterr().out
    assert (
        command.main(["rollup", *collections_option, "--input", str(tmp_path / "o"), "--output", str(tmp_path / "d")])
        == 2
    )
    assert f"commute: tally of an unknown revision '{revision}': {advice}" in capsys.readouterr().err
    changed.write_text(changed.read_text().replace("groups:", "previous: [{epsilon: 4.0}], groups:"))
    assert command.main(["check", *collections_option, *inputs]) == 0


def test_durations_in_messages_are_written_as_people_write_them(collections, tmp_path, capsys):
    collections_option = ["--collections", collections]
    simulation = ["--collection", "commute", "--reports", "50", "--hours", "2", "--output", str(tmp_path / "r")]
    assert command.main(["simulate", *collections_option, *simulation]) == 0
    output = str(tmp_path / "o")
    assert command.main(["aggregate", *collections_option, "--input", f"{tmp_path}/r/*.avro", "--output", output]) == 0
    capsys.readouterr()
    for window in ("90m", "5400s"):
        rollup = ["--input", output, "--window", window, "--output", str(tmp_path / "rolled")]
        assert command.main(["rollup", *collections_option, *rollup]) == 2
        assert "windows of 'commute' such as 2026-01-01 01:00 – 02:00 UTC do not fit evenly into 90m" in (
            capsys.readouterr().err
        )
    for windows, message in (
        ("{size: 1h, every: 2h}", "windows.every: got 2h, allowed: at most windows.size, 1h, or reports"),
        ("{size: 1d, every: 7s}", "got 7s for windows of 1d, which makes slices of 1s; allowed: at most 10,000 slices"),
    ):
        (tmp_path / "wrong.yaml").write_text(YAML.replace("{size: 1h}", windows))
        assert command.main(["check", "--collections", f"{tmp_path}/wrong.yaml", "--input", "README.md"]) == 2
        assert message in capsys.readouterr().err


def test_a_wrong_collections_file_ends_every_command(tmp_path, capsys):
    invalid = tmp_path / "wrong.yaml"
    invalid.write_text("collections: {a: {domain: {low: 0, high: 1}, epsilon: -1}}")
    for arguments in (
        ["simulate", "--output", "x"],
        ["aggregate", "--input", "x", "--output", "x"],
        ["check", "--input", "x"],
    ):
        assert command.main([*arguments, "--collections", str(invalid)]) == 2
        assert "epsilon: got -1" in capsys.readouterr().err


def test_every_command_has_help_and_unknown_commands_are_refused(capsys):
    assert command.main(["--help"]) == 0
    assert "hushgram aggregate" in capsys.readouterr().out
    assert command.main([]) == 2
    assert command.main(["agregate"]) == 2
    errors = capsys.readouterr().err
    assert "no command 'agregate', allowed: plan, simulate, try, aggregate" in errors
    assert "(did you mean aggregate?)" in errors
    for name in command.COMMANDS:
        with pytest.raises(SystemExit) as raised:
            command.main([name, "--help"])
        assert raised.value.code == 0
        assert "example: hushgram" in " ".join(capsys.readouterr().out.split())
    assert command.main(["show", "/nowhere"]) == 2
    assert "/nowhere: no such directory" in capsys.readouterr().err
    assert command.main(["show", "tests"]) == 2
    assert "`hushgram aggregate` writes them" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../x", "..", ".", "a/b\\c", "\x00", "ü" * 128, "x" * 128, "%2e%2e", "-rf", "a b"])
def test_no_name_escapes_from_its_directory(name):
    safe = safe_name(name)
    assert "/" not in safe
    assert "\\" not in safe
    assert safe not in ("", ".", "..")
    assert len(safe) <= 100
    assert safe.isascii()
    assert safe_name(name + "y") != safe


@pytest.mark.parametrize(
    ("zone", "expected"), [(None, "23:00:00–22:00:00"), ("Europe/Berlin", "00:00:00–00:00:00"), ("M/n", "23:00:00–22:")]
)
def test_a_pane_is_printed_in_its_own_time_zone(zone, expected):
    """And by UTC, where this machine does not know its zone."""
    pane = make_estimate(COMMUTE, reports=2000)
    day = replace(pane.key, window_start=1_774_738_800_000, window_end=1_774_821_600_000)
    assert pane_line(replace(pane, key=day, time_zone=zone)).startswith(expected)


def test_bars_show_where_the_mass_is():
    assert bars(np.array([0.0, 0.5, 1.0])) == " ▄█"
    assert len(bars(np.full(1024, 1 / 1024))) == 32
    assert bars(np.zeros(4)) == "    "


def test_bundled_values_fill_the_domain(collections):
    from hushgram.pipelines.simulate.shapes import draw_for

    commute = load_collections(collections)["commute"]
    for name in ("taxi", "income", "retirement", "uniform"):
        values = draw_for(commute, name)(1000, np.random.default_rng(1))
        assert 0 <= values.min() < values.max() <= 180
