"""The alert rule, judged by Prometheus itself; and that its gauges are those that are written."""

import json
import re
import subprocess

import pytest
import yaml

from devtools.tools import need
from hushgram.pipelines.changes.metrics import CHANGED, LEVEL, PVALUE, WINDOW_END, ChangeGauges
from tests.helpers.deployments import DEPLOY
from tests.helpers.tools import run_or_skip

RULES = DEPLOY / "prometheus" / "rules.yaml"
[GROUP] = yaml.safe_load(RULES.read_text())["groups"]
[ALERT] = GROUP["rules"]


@pytest.fixture(scope="module", autouse=True)
def promtool():
    return run_or_skip(need, "promtool")


def judge(tmp_path, rules, on):
    """What Prometheus says of the rules where, for a minute, the Bronx differs, and the alert is to be on as told."""
    alert = {
        "exp_labels": {"collection": "commute", "group": "Bronx", "severity": "warning"},
        "exp_annotations": {
            "summary": "The distribution of commute has changed in Bronx.",
            "description": ALERT["annotations"]["description"],
        },
    }
    series = [
        {"series": 'hushgram_changed{collection="commute"}', "values": "0x30"},
        {"series": 'hushgram_changed{collection="commute", group="Bronx"}', "values": "0 0 0 0 0 1 0x60"},
    ]
    expected = [
        {"eval_time": time, "alertname": ALERT["alert"], "exp_alerts": [alert] if is_on else []}
        for time, is_on in on.items()
    ]
    case = {"interval": "1m", "input_series": series, "alert_rule_test": expected}
    test = tmp_path / "test.yaml"
    test.write_text(json.dumps({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [case]}))
    completed = subprocess.run(["promtool", "test", "rules", test], capture_output=True, text=True)
    return "" if completed.returncode == 0 else completed.stdout + completed.stderr


def test_rules_are_about_gauges_that_are_written():
    written = {family.name for family in ChangeGauges().collect()}
    assert written == {name for name, _ in (CHANGED, PVALUE, LEVEL, WINDOW_END)}
    assert set(re.findall(r"hushgram_\w+", ALERT["expr"])) == {CHANGED[0]}


def test_the_alert_is_on_where_and_while_a_window_differs(tmp_path):
    """At once, for a quarter of an hour, and there alone."""
    assert judge(tmp_path, RULES, {"4m": False, "5m": True, "19m": True, "21m": False}) == ""


def test_prometheus_refuses_wrong_rules_and_wrong_expectations(tmp_path):
    damaged = tmp_path / "rules.yaml"
    damaged.write_text(RULES.read_text().replace("max_over_time(", "max_over_thyme("))
    assert "max_over_thyme" in judge(tmp_path, damaged, {"4m": False})
    damaged.write_text(RULES.read_text().replace("{{ end }}", ""))
    assert "unexpected EOF" in judge(tmp_path, damaged, {"4m": False})
    assert "got:[]" in judge(tmp_path, RULES, {"4m": True}).replace(" ", "").replace("\n", "")
