"""The alert rule, judged by Prometheus itself; and that its gauges are those that are written."""

import re

import pytest
import yaml

from devtools.prometheus import check_rules, rule_tester
from hushgram.pipelines.changes.metrics import CHANGED, LEVEL, PVALUE, WINDOW_END, ChangeGauges
from tests.helpers.deployments import DEPLOY
from tests.helpers.tools import run_or_skip

RULES = DEPLOY / "prometheus" / "rules.yaml"
[GROUP] = yaml.safe_load(RULES.read_text())["groups"]
[ALERT] = GROUP["rules"]


@pytest.fixture(scope="session")
def tester():
    return run_or_skip(rule_tester)


def test_rules_are_about_gauges_that_are_written():
    written = {family.name for family in ChangeGauges().collect()}
    assert written == {name for name, _ in (CHANGED, PVALUE, LEVEL, WINDOW_END)}
    assert set(re.findall(r"hushgram_\w+", ALERT["expr"])) == {CHANGED[0]}


SCRIPT = f"""
load 1m
  hushgram_changed{{collection="commute"}} 0x30
  hushgram_changed{{collection="commute", group="Bronx"}} 0 0 0 0 0 1 0x60

eval instant at 4m {ALERT["expr"]}

eval instant at 5m {ALERT["expr"]}
  {{collection="commute", group="Bronx"}} 1

eval instant at 19m {ALERT["expr"]}
  {{collection="commute", group="Bronx"}} 1

eval instant at 21m {ALERT["expr"]}
"""
"""A window of a minute in which the Bronx differs: the alert is on at once, for a quarter of an hour, there alone."""


@pytest.mark.slow
def test_the_alert_is_on_where_and_while_a_window_differs(tester, tmp_path):
    (tmp_path / "script").write_text(SCRIPT)
    assert check_rules(RULES, tmp_path / "script") == ""


@pytest.mark.slow
def test_prometheus_refuses_wrong_rules_and_wrong_expectations(tester, tmp_path):
    (tmp_path / "script").write_text(SCRIPT)
    damaged = tmp_path / "rules.yaml"
    damaged.write_text(RULES.read_text().replace("max_over_time(", "max_over_thyme("))
    assert "max_over_thyme" in check_rules(damaged, tmp_path / "script")
    damaged.write_text(RULES.read_text().replace("{{ end }}", ""))
    assert "unexpected EOF" in check_rules(damaged, tmp_path / "script")
    (tmp_path / "script").write_text(SCRIPT.replace("at 4m", "at 6m"))
    assert "unexpected metric" in check_rules(RULES, tmp_path / "script")
