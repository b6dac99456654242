"""`hushgram changes`: what it says of results, when it ends with which code, and how it follows a stream."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from scipy import stats

from hushgram import Collection
from hushgram.changes import REFERENCES
from hushgram.pipelines.changes.definitions import Definitions, recognise_collection
from hushgram.pipelines.changes.follow import Follower
from hushgram.pipelines.cli import command
from hushgram.schemas.avro_schemas import HISTOGRAM, SNAPSHOT
from hushgram.schemas.records import Key, Pane
from hushgram.simulation import draw_tally
from hushgram.transforms.compaction import folders
from hushgram.transforms.estimation import histogram, snapshots
from hushgram.transforms.folding import KINDS
from hushgram.transforms.sinks.files import FORMATS, window_name
from hushgram.transforms.sinks.window_files import write_window
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START
from tests.helpers.stopping import COMMAND, Program
from tests.helpers.tables import HOSTILE

COMMUTE = Collection(name="commute", low=0, high=180, unit="minutes", buckets=32, epsilon=1, groups=["Bronx", "Queens"])
YAML = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [Bronx, Queens]
"""
ON_TIME = Pane()
BEFORE, AFTER = stats.gamma(4, scale=9), stats.gamma(4, scale=13)


def make_tally(collection, truth, reports, rng):
    edges = np.linspace(collection.low, collection.high, collection.buckets + 1)
    return draw_tally(collection, np.diff(np.append(truth.cdf(edges[:-1]), 1.0)), reports, rng)


def make_windows(collection, hour, truths, reports=20_000, pane=ON_TIME):
    """A window of an hour with a group for each truth, and all of them together."""
    rng = np.random.default_rng([hour, *collection.name.encode()])
    counts = {group: make_tally(collection, truth, reports, rng) for group, truth in truths.items()}
    if None not in counts:
        counts[None] = sum(counts.values())
    start = START + hour * HOUR
    return [
        (Key(collection.name, group, start, start + HOUR), pane, Tallies({collection.revision: (int(own.sum()), own)}))
        for group, own in counts.items()
    ]


def write_results(folder, collection, windows):
    """As a batch does: a file for each window and kind."""
    write_window(str(folder / "snapshots"), SNAPSHOT, "avro", snapshots(collection, windows))
    write_window(str(folder / "histograms"), HISTOGRAM, "avro", [histogram(*window) for window in windows])


def write_pane(folder, collection, windows):
    """As a stream does: a file for each pane, window, group and kind."""
    for window in windows:
        for kind, definition, record in (
            ("snapshots", SNAPSHOT, snapshots(collection, [window])[0]),
            ("histograms", HISTOGRAM, histogram(*window)),
        ):
            path = folder / kind / f"{window_name(record.key)}-{record.key.group}-{record.pane.index}.avro"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(FORMATS["avro"](definition, [record]))


def truths_at(hour, changed=5):
    """In the Bronx it changes, and stays."""
    return {"Bronx": BEFORE if hour < changed else AFTER, "Queens": BEFORE}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Eight hours, with a change at the sixth."""
    folder = tmp_path_factory.mktemp("changes") / "results"
    for hour in range(8):
        write_results(folder, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour)))
    return folder


@pytest.fixture(scope="module")
def quiet_results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("changes") / "quiet"
    for hour in range(4):
        write_results(folder, COMMUTE, make_windows(COMMUTE, hour, {None: BEFORE}))
    return folder


def run_json(capsys, *arguments):
    assert command.main(["changes", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["collections"]


# ---- What a person sees


def test_a_table_and_a_sentence_tell_what_changed(results, capsys):
    assert command.main(["changes", str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "commute (minutes, 0 to 180)"
    [place] = [index for index, line in enumerate(lines) if " Bronx " in line and line.startswith("  2026")]
    assert lines[place].startswith("  2026-01-01 05:00 – 06:00  Bronx  preceding")
    told = r"    The median of this window in Bronx is \S+ minutes higher than that of the 5 windows before it, 95 %.*"
    assert re.fullmatch(told, lines[place + 1])
    assert not any("Queens" in line for line in lines)
    assert lines[-2] == "  2 changes found in 21 comparisons"
    assert lines[-1] == "  false alarms: at most 5 % of collections ever have one, over all their windows and groups"


def test_json_has_the_numbers_of_the_table(results, capsys):
    [found] = run_json(capsys, results)
    assert (found["collection"], found["comparisons"], found["false_alarm_rate"]) == ("commute", 21, 0.05)
    assert (found["passed_over"], found["open"]) == ([], 0)
    change = {change["group"]: change for change in found["changes"]}["Bronx"]
    assert (change["window_start"], change["window_end"]) == (START + 5 * HOUR, START + 6 * HOUR)
    assert (change["against"], change["reference_windows"]) == ("preceding", 5)
    assert (change["reference_start"], change["reference_end"]) == (START, START + 5 * HOUR)
    assert (change["reports"], change["reference_reports"]) == (20_000, 100_000)
    assert change["pvalue"] <= change["level"] < 0.05
    for name, truth in (("mean", AFTER.mean() - BEFORE.mean()), ("median", AFTER.median() - BEFORE.median())):
        # A 95 % interval of a seeded simulation; six standard errors of it would always hold the truth.
        width = change[name]["high"] - change[name]["low"]
        assert change[name]["low"] <= change[name]["value"] <= change[name]["high"]
        assert abs(change[name]["value"] - truth) < 1.5 * width


def test_a_definition_and_what_snapshots_tell_give_the_same(results, capsys, tmp_path):
    (tmp_path / "collections.yaml").write_text(YAML)
    assert run_json(capsys, results) == run_json(capsys, results, "--collections", tmp_path / "collections.yaml")


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--exit-code"], 1), (["--exit-code", "--against=week"], 0)])
def test_the_exit_code_tells_of_changes_if_asked(results, options, code):
    assert command.main(["changes", str(results), *options]) == code


def test_no_change_is_no_exit_code(quiet_results, capsys):
    assert command.main(["changes", str(quiet_results), "--exit-code"]) == 0
    assert "  no change found in 3 comparisons" in capsys.readouterr().out


def test_a_change_that_stays_is_one_line_against_the_week_before(tmp_path, capsys):
    hours = [*range(4), *range(168, 172)]
    for hour in hours:
        truth = BEFORE if hour < 168 else AFTER
        write_results(tmp_path, COMMUTE, make_windows(COMMUTE, hour, {None: truth}))
    assert command.main(["changes", str(tmp_path), "--against", "week"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("week before" in line and line.startswith("  2026") for line in lines) == 1
    assert "    So do the 3 windows right after it." in lines
    assert "  4 changes found in 4 comparisons" in lines


def test_a_mechanism_that_estimates_a_mean_has_changes_of_the_mean(tmp_path, capsys):
    collection = Collection(name="mean", low=0, high=180, unit="minutes", epsilon=1, mechanism="piecewise")
    rng = np.random.default_rng(3)
    for hour, truth in enumerate((BEFORE, BEFORE, AFTER)):
        counts = collection.tally(collection.simulate(truth.rvs(20_000, random_state=rng), rng))
        key = Key("mean", None, START + hour * HOUR, START + (hour + 1) * HOUR)
        write_results(tmp_path, collection, [(key, ON_TIME, Tallies({collection.revision: (20_000, counts)}))])
    [found] = run_json(capsys, tmp_path)
    [change] = found["changes"]
    assert change["median"] is None
    assert change["sentence"].startswith("The mean of this window is ")
    assert command.main(["changes", str(tmp_path)]) == 0
    assert "20,000  -  " in capsys.readouterr().out


def test_gauges_show_the_newest_windows(results, tmp_path, capsys):
    file = tmp_path / "changes.prom"
    for hour in (5, 7):  # the window that differs is the newest; then two more have come
        folder = tmp_path / str(hour)
        for earlier in range(hour + 1):
            write_results(folder, COMMUTE, make_windows(COMMUTE, earlier, truths_at(earlier)))
        assert command.main(["changes", str(folder), "--prometheus", str(file)]) == 0
        families = {family.name: family for family in text_string_to_metric_families(file.read_text())}
        changed = {sample.labels.get("group"): sample.value for sample in families["hushgram_changed"].samples}
        assert changed == {None: hour == 5, "Bronx": hour == 5, "Queens": 0.0}
        ends = {sample.value for sample in families["hushgram_change_window_end_timestamp_seconds"].samples}
        assert ends == {(START + (hour + 1) * HOUR) / 1000}
        pvalues, levels = (
            {frozenset(sample.labels.items()): sample.value for sample in families[name].samples}
            for name in ("hushgram_change_pvalue", "hushgram_change_level")
        )
        below = {dict(labels).get("group") for labels in pvalues if pvalues[labels] <= levels[labels]}
        assert below == ({None, "Bronx"} if hour == 5 else set())


# ---- Faults


def test_nothing_to_compare_is_said(tmp_path, capsys):
    write_results(tmp_path, COMMUTE, make_windows(COMMUTE, 0, {None: BEFORE}))
    assert command.main(["changes", str(tmp_path), "--exit-code"]) == 0
    assert "  no change found in 0 comparisons" in capsys.readouterr().out


def test_windows_that_are_not_compared_are_counted_with_the_reason(tmp_path, capsys):
    """Another domain, too few reports, an open window."""
    wider = replace(COMMUTE, high=360)
    write_results(tmp_path, wider, make_windows(wider, 0, {None: BEFORE}))
    for hour, reports, timing in ((1, 20_000, "on_time"), (2, 999, "on_time"), (3, 20_000, "late"), (4, 5000, "early")):
        pane = Pane(0, hour, timing)
        write_results(tmp_path, COMMUTE, make_windows(COMMUTE, hour, {None: BEFORE}, reports, pane))
    assert command.main(["changes", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "no change found in 1 comparison\n" in text
    assert "not compared: 1 window: reports of parameters that the collection neither has nor lists" in text
    assert "not compared: 1 window: too few reports" in text
    assert "not compared: 1 window: still open" in text


def test_results_tell_an_unusual_epsilon_themselves(tmp_path):
    write_results(tmp_path, unusual := replace(COMMUTE, epsilon=1.2345), make_windows(unusual, 0, {None: BEFORE}))
    write_results(tmp_path, unusual, make_windows(unusual, 1, {None: AFTER}))
    assert command.main(["changes", str(tmp_path), "--exit-code"]) == 1


def test_unusual_parameters_need_the_definition(tmp_path, capsys):
    unusual = replace(COMMUTE, bandwidth=0.2345)
    write_results(tmp_path, unusual, make_windows(unusual, 0, {None: BEFORE}))
    assert command.main(["changes", str(tmp_path)]) == 2
    assert "'commute': results do not tell its mechanism and ε" in capsys.readouterr().err
    (tmp_path / "collections.yaml").write_text(YAML.replace("1.0", "1.0\n    bandwidth: 0.2345"))
    assert command.main(["changes", str(tmp_path), "--collections", str(tmp_path / "collections.yaml")]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--false-alarms", "0"], "--false-alarms: got '0', allowed: more than 0 and less than 100%"),
        (["--false-alarms", "100%"], "--false-alarms: got '100%', allowed: more than 0"),
        (["--false-alarms", "few"], "--false-alarms: got 'few', allowed: a share such as 1%"),
        (["--prometheus", "gauges.txt"], "--prometheus: got 'gauges.txt', allowed: FILE.prom"),
        (["--prometheus", "no/such/gauges.prom"], "no directory"),
        (["--collections", "no/such.yaml"], "--collections no/such.yaml: cannot be read"),
    ],
)
def test_a_wrong_option_ends_at_once_with_one_line(results, options, message, capsys, follow):
    assert command.main(["changes", str(results), *options, *follow]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.fixture(params=[[], ["--follow"]], ids=["recorded", "followed"])
def follow(request):
    return request.param


def test_a_collection_that_the_file_does_not_define_is_named(results, tmp_path, capsys):
    (tmp_path / "collections.yaml").write_text(YAML.replace("commute", "walk"))
    assert command.main(["changes", str(results), "--collections", str(tmp_path / "collections.yaml")]) == 2
    assert "--collections: does not define 'commute'" in capsys.readouterr().err


def test_an_empty_folder_and_a_damaged_file_end_with_one_line(tmp_path, capsys):
    assert command.main(["changes", str(tmp_path)]) == 2
    assert "no histograms there" in capsys.readouterr().err
    assert command.main(["changes", str(tmp_path / "none")]) == 2
    assert "no such directory" in capsys.readouterr().err
    write_results(tmp_path, COMMUTE, make_windows(COMMUTE, 0, {None: BEFORE}))
    [path] = (tmp_path / "histograms").rglob("*.avro")
    path.write_bytes(path.read_bytes()[:-20])
    assert command.main(["changes", str(tmp_path)]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("name", HOSTILE)
def test_names_from_outside_are_shown_as_they_are(name, tmp_path, capsys):
    collection = replace(COMMUTE, name=name, groups=[name])
    for hour in range(3):
        truths = {name: BEFORE if hour < 2 else AFTER}
        write_results(tmp_path, collection, make_windows(collection, hour, truths))
    [found] = run_json(capsys, tmp_path)
    assert found["collection"] == name
    assert {change["group"] for change in found["changes"]} == {None, name}


# ---- What snapshots tell


@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 0.5},
        {"epsilon": 4.0, "mechanism": "hierarchy", "buckets": 64},
        {"mechanism": "randomized_response"},
        {"mechanism": "piecewise"},
        {"scale": "log", "low": 1.0},
        {"integer": True, "high": 31.0},
        {"estimator": "log_spline", "minimum_reports": 5},
    ],
)
def test_snapshots_tell_their_collection(parameters):
    collection = Collection(**{**COMMUTE.to_dict(), "groups": [], **parameters})
    counts = collection.tally(collection.simulate(BEFORE.rvs(500, random_state=3), seed=3))
    windows = [(Key("commute", None, START, START + HOUR), Pane(), Tallies({collection.revision: (500, counts)}))]
    recognised = recognise_collection(snapshots(collection, windows), [histogram(*window) for window in windows])
    assert recognised.revision == collection.revision
    assert (recognised.estimator, recognised.domain) == (collection.estimator, collection.domain)
    assert (recognised.minimum_reports > 500) == (collection.minimum_reports > 500)


@pytest.mark.parametrize(
    "damage", [{"low": 5.0, "high": 5.0}, {"scale": "cubic"}, {"low": float("nan")}, {"high": 360.0}]
)
def test_snapshots_of_no_collection_tell_none(damage):
    windows = make_windows(COMMUTE, 0, {None: BEFORE})
    [snapshot], counts = snapshots(COMMUTE, windows), [histogram(*window) for window in windows]
    assert recognise_collection([snapshot], counts) is not None
    assert recognise_collection([replace(snapshot, **damage)], counts) is None
    assert recognise_collection([replace(snapshot, revisions=())], counts) is not None
    assert recognise_collection([replace(snapshot, time_zone="Nowhere/None", estimator="none")], counts) is not None
    assert recognise_collection([snapshot]) == recognise_collection([snapshot], counts)
    assert recognise_collection([replace(snapshot, revisions=())]) is None
    assert recognise_collection([], counts) is None


# ---- As results come


def make_follower(folder, quiet_seconds=0.0):
    return Follower(Definitions(str(folder)), REFERENCES, 0.05, quiet_seconds)


def list_found(news):
    return [(change.window.group, change.window.start, change.against) for _, found in news for change in found.found]


def test_a_follower_finds_each_change_once_and_what_is_found_afterwards(tmp_path, capsys):
    follower = make_follower(tmp_path)
    assert follower.news() == []
    found = []
    for hour in range(8):
        write_pane(tmp_path, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour), 5000, Pane(0, 0, "early")))
        assert list_found(follower.news()) == []
        write_pane(tmp_path, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour), pane=Pane(0, 1)))
        found += list_found(follower.news())
        write_pane(tmp_path, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour), 21_000, Pane(0, 2, "late")))
        assert list_found(follower.news()) == []
    assert sorted(found, key=str) == sorted(
        [(group, START + 5 * HOUR, "preceding") for group in (None, "Bronx")], key=str
    )
    [recorded] = run_json(capsys, tmp_path)
    assert {(change["group"], change["window_start"]) for change in recorded["changes"]} == {
        (group, start) for group, start, _ in found
    }


def test_a_follower_judges_nothing_again_when_files_are_folded(tmp_path):
    follower, found = make_follower(tmp_path), []
    for hour in range(8):
        write_pane(tmp_path, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour), pane=Pane(0, 1)))
        found += list_found(follower.news())
        for kind in KINDS:
            for folder in folders(kind, str(tmp_path), math.inf):
                folder.compact()
        assert follower.news() == []
    assert len(found) == 2


def test_a_window_waits_until_it_is_quiet_and_holds_up_later_ones(tmp_path):
    follower = make_follower(tmp_path, quiet_seconds=1000.0)
    for hour in range(8):
        write_pane(tmp_path, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour)))
    assert follower.news() == []
    follower.quiet_seconds = 0.0
    assert len(list_found(follower.news())) == 2


def test_a_follower_goes_on_after_what_it_cannot_use(tmp_path, capsys):
    follower = make_follower(tmp_path)
    wider = replace(COMMUTE, high=360)
    for hour in range(8):
        used = wider if hour == 2 else COMMUTE
        write_pane(tmp_path, used, make_windows(used, hour, {None: BEFORE if hour < 6 else AFTER}))
        if hour == 3:
            (tmp_path / "histograms" / "commute" / "damaged.avro").write_bytes(b"Obj\x01 and then nothing")
        found = list_found(follower.news())
        assert bool(found) == (hour == 6)
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert "not compared: reports of parameters" in errors[0]
    assert "(the first: 2026-01-01 02:00 – 03:00)" in errors[0]
    assert errors[1].startswith("hushgram: left out: ")
    assert "damaged.avro: cannot be read" in errors[1]


def test_a_follower_waits_for_a_file_system_that_is_away(tmp_path, capsys, monkeypatch):
    follower = make_follower(tmp_path)
    for hour in range(8):
        write_pane(tmp_path, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour)))

    def away(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("hushgram.pipelines.results.result_files", away)
        assert follower.news() == follower.news() == []
    assert capsys.readouterr().err.count("cannot be listed: [Errno 5] Input/output error\n") == 1
    assert len(list_found(follower.news())) == 2


def test_a_group_that_comes_after_its_window_was_judged_is_passed_over(tmp_path, capsys):
    follower = make_follower(tmp_path)
    for hour in range(3):
        both = make_windows(COMMUTE, hour, truths_at(hour))
        write_pane(tmp_path, COMMUTE, [window for window in both if window[0].group != "Queens" or hour != 1])
        follower.news()
        write_pane(tmp_path, COMMUTE, [window for window in both if window[0].group == "Queens" and hour == 1])
    follower.news()
    assert "shares time with one before, or came after a later one" in capsys.readouterr().err


@pytest.mark.slow
def test_following_ends_at_the_first_change_if_asked(tmp_path):
    """From an empty folder on, as a stream fills it."""
    folder = tmp_path / "results"
    program = Program([*COMMAND, "changes", folder, "--follow", "--json", "--exit-code"], tmp_path)
    for hour in range(7):
        write_pane(folder, COMMUTE, make_windows(COMMUTE, hour, truths_at(hour)))
    code, output, errors = program.end()
    assert (code, errors) == (1, "")
    changes = [json.loads(line) for line in output.splitlines()]
    assert {(change["group"], change["window_start"]) for change in changes} == {
        (group, START + 5 * HOUR) for group in (None, "Bronx")
    }
    program.check_nothing_is_left()
