"""The alert rules, judged by Prometheus itself, over gauges that the sink and the command write."""

import json
import re
import subprocess
from collections import defaultdict

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from devtools.tools import need
from hushgram import Collection
from hushgram.pipelines.changes.metrics import CHANGED, LEVEL, PVALUE, WINDOW_END, ChangeGauges
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.sinks.latest import Board
from hushgram.transforms.sinks.prometheus import exposition
from tests.helpers.deployments import DEPLOY
from tests.helpers.reports import HOUR
from tests.helpers.tables import MEAN, make_snapshot
from tests.helpers.tools import run_or_skip

RULES = DEPLOY / "prometheus" / "rules.yaml"
[GROUP] = yaml.safe_load(RULES.read_text())["groups"]
ALERTS = {rule["alert"]: rule for rule in GROUP["rules"] if "alert" in rule}
RECORDED = {rule["record"] for rule in GROUP["rules"] if "record" in rule}
NAMES = {name for rule in GROUP["rules"] for name in re.findall(r"\bhushgram_\w+", rule["expr"])}


@pytest.fixture(scope="module", autouse=True)
def promtool():
    return run_or_skip(need, "promtool")


def judge(tmp_path, series, name, on, labels=None, summary="", rules=RULES):
    """What promtool prints for these series, of one value a minute, if the alert is not on just when expected."""
    alert = {
        "exp_labels": {**(labels or {}), **ALERTS[name]["labels"]},
        "exp_annotations": {"summary": summary, "description": ALERTS[name]["annotations"]["description"]},
    }
    expected = [
        {"eval_time": time, "alertname": name, "exp_alerts": [alert] if is_on else []} for time, is_on in on.items()
    ]
    inputs = [{"series": key, "values": values} for key, values in series.items()]
    case = {"interval": "1m", "input_series": inputs, "alert_rule_test": expected}
    test = tmp_path / "test.yaml"
    test.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [case]}))
    completed = subprocess.run(["promtool", "test", "rules", test], capture_output=True, text=True)
    return "" if completed.returncode == 0 else completed.stdout + completed.stderr


# Changes -------------------------------------------------------------------------------------------------------------

CHANGES = {
    'hushgram_changed{collection="commute"}': "0x30",
    'hushgram_changed{collection="commute", group="Bronx"}': "0 0 0 0 0 1 0x60",
}
"""For a minute, the Bronx differs."""
IN_BRONX = {
    "labels": {"collection": "commute", "group": "Bronx"},
    "summary": "The distribution of commute has changed in Bronx.",
}


def test_rules_are_about_gauges_that_are_written():
    changes = {family.name for family in ChangeGauges().collect()}
    assert changes == {name for name, _ in (CHANGED, PVALUE, LEVEL, WINDOW_END)}
    stream = set(
        re.findall(r"^(\w+)[{ ]", exposition(Board.of_snapshot(make_snapshot()), streaming=True), re.MULTILINE)
    )
    assert changes | stream >= NAMES
    assert set(re.findall(r"\bhushgram:\w+(?::\w+)*", str(GROUP))) == RECORDED


def test_the_alert_of_changes_is_on_where_and_while_a_window_differs(tmp_path):
    """At once, for a quarter of an hour, and there alone."""
    on = {"4m": False, "5m": True, "19m": True, "21m": False}
    assert judge(tmp_path, CHANGES, "HushgramDistributionChanged", on, **IN_BRONX) == ""


def test_prometheus_refuses_wrong_rules_and_wrong_expectations(tmp_path):
    def judge_changes(on, rules=RULES):
        return judge(tmp_path, CHANGES, "HushgramDistributionChanged", on, **IN_BRONX, rules=rules)

    damaged = tmp_path / "rules.yaml"
    damaged.write_text(RULES.read_text().replace("max_over_time(hushgram_changed", "max_over_thyme(hushgram_changed"))
    assert "max_over_thyme" in judge_changes({"4m": False}, damaged)
    damaged.write_text(RULES.read_text().replace("{{ end }}", ""))
    assert "unexpected EOF" in judge_changes({"4m": False}, damaged)
    assert "got:[]" in judge_changes({"4m": True}).replace(" ", "").replace("\n", "")


# Streams -------------------------------------------------------------------------------------------------------------


def make_pane(hour, reports, collection=MEAN, group=None):
    """The gauges of an hour's window with this number of reports so far."""
    return Board.of_snapshot(make_snapshot(collection, group, reports, start=hour * HOUR))


def make_refusals(reason, reports):
    return Board.of_letter(DeadLetter(reason, reports, "", "t[0]", 1, 0))


def expose(minutes):
    """The series of a stream, of which each minute adds boards to what was there: as its file shows them."""
    series = defaultdict(list)
    board = Board()
    for count, boards in enumerate(minutes):
        board = Board.merge([board, *boards])
        for family in text_string_to_metric_families(exposition(board, streaming=True)):
            for sample in family.samples:
                if sample.name in NAMES:
                    labels = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(sample.labels.items()))
                    values = series[f"{sample.name}{{{labels}}}"]
                    values += ["_"] * (count - len(values)) + [repr(sample.value)]
    return {key: " ".join(values) for key, values in series.items()}


def run_stream(per_hour, early=True, **options):
    """What each minute brings of some hours: a pane of the reports until then, or, two minutes after its end, a whole
    window. The next minute's is that of the next window."""
    yield []
    for minute in range(1, 60 * len(per_hour)):
        hour, minute_of_hour = divmod(minute - 1, 60)
        if early:
            yield [make_pane(hour, per_hour[hour] * (minute_of_hour + 1) // 60, **options)]
        else:
            yield [make_pane(hour - 1, per_hour[hour - 1], **options)] if hour and minute_of_hour == 1 else []


def both(one, other):
    return [[*boards, *others] for boards, others in zip(one, other, strict=True)]


OTHER = Collection(name="other", low=0, high=1, epsilon=1, mechanism="piecewise")
OF_MEAN = {"collection": "mean"}
EARLY = pytest.mark.parametrize("early", [True, False])


def at(*minutes, on):
    return {f"{minute}m": on for minute in minutes}


@EARLY
def test_the_alert_of_a_stream_that_stopped_is_on_two_windows_later(tmp_path, early):
    """Another collection goes on; a group was silent almost all the time."""
    stopped = [*run_stream([6000] * 3, early), *[[]] * 240]
    others = [*run_stream([6000] * 7, collection=OTHER)]
    others[1] = [*others[1], make_pane(0, 5, MEAN, group="DE")]
    series = expose(both(stopped, others))
    end = 180 if early else 120
    expected = at(end, end + 119, end + 135, on=False) | at(end + 136, on=True)
    summary = "No new window of mean since 2h 16m 0s."
    assert judge(tmp_path, series, "HushgramNoNewWindow", expected, OF_MEAN, summary) == ""


@EARLY
def test_a_stream_that_goes_on_gives_no_alert(tmp_path, early):
    series = expose(run_stream([6000] * 5, early))
    for name in ("HushgramNoNewWindow", "HushgramReportsRefused", "HushgramTooFewReports"):
        assert judge(tmp_path, series, name, at(*range(300), on=False)) == ""


@pytest.mark.parametrize("reports", [6000, 0])
def test_the_alert_of_refused_reports_is_on_while_they_are_many(tmp_path, reports):
    """For an hour, from the hundredth minute on, as many are refused as are not; or all are, and there is no window."""
    refusals = [[make_refusals("unknown_revision", 100)] if 100 <= minute < 160 else [] for minute in range(300)]
    series = expose(both(run_stream([reports] * 5) if reports else [[]] * 300, refusals))
    summary = f"{50 if reports else 100}% of the reports were refused in the last hour."
    expected = at(99, 222, 299, on=False) | at(159, on=True)
    assert judge(tmp_path, series, "HushgramReportsRefused", expected, {}, summary) == ""


def test_few_refused_reports_and_those_that_came_twice_give_no_alert(tmp_path):
    """Of 6000 an hour, 30 are refused; and every report comes twice."""
    refusals = [[make_refusals("too_old", minute % 2), make_refusals("duplicate", 100)] for minute in range(300)]
    series = expose(both(run_stream([6000] * 5), refusals))
    assert judge(tmp_path, series, "HushgramReportsRefused", at(*range(300), on=False)) == ""


@EARLY
def test_the_alert_of_too_few_reports_is_on_when_a_window_ended_so(tmp_path, early):
    """That of the second hour; a group has as few all the time."""
    groups = run_stream([60] * 6, early, group="DE")
    series = expose(both(run_stream([6000, 60, 6000, 6000, 6000, 6000], early), groups))
    summary = "A window of mean ended with fewer reports than the collection asks for."
    seen, gone = (120, 120) if early else (122, 181)
    expected = at(60, 119, gone + 91, 359, on=False) | at(seen + 1, gone + 89, on=True)
    assert judge(tmp_path, series, "HushgramTooFewReports", expected, OF_MEAN, summary) == ""
