"""Grafana's dashboards as files: whole, without overlaps, and with every variable that their queries use."""

import re

import pytest
from apache_beam.metrics.metric import Lineage

from hushgram.transforms.sinks.latest import Board
from hushgram.transforms.sinks.prometheus import exposition
from tests.helpers.dashboards import NAMES, VARIABLE, list_targets, load_dashboard
from tests.helpers.documents import DOCS
from tests.helpers.tables import make_snapshot

BUILT_IN = {"__rate_interval", "__timeFilter"}


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_ids_and_places_of_their_own(name):
    panels = load_dashboard(name)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        taken |= cells
        assert panel["title"]
        assert panel["description"]


@pytest.mark.parametrize("name", NAMES)
def test_queries_use_variables_that_are_there_and_the_chosen_data_source(name):
    dashboard = load_dashboard(name)
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    queries = [target.get("rawSql") or target["expr"] for _, target in list_targets(dashboard)]
    queries += [str(variable["query"]) for variable in variables.values()]
    used = {match[1] or match[3] for query in queries for match in VARIABLE.finditer(query)} - BUILT_IN
    assert used | {"datasource"} == set(variables)
    sources = [target["datasource"] for _, target in list_targets(dashboard)]
    sources += [panel["datasource"] for panel in dashboard["panels"]]
    sources += [variable["datasource"] for variable in variables.values() if variable["type"] == "query"]
    assert {source["uid"] for source in sources} == {"${datasource}"}
    assert {source["type"] for source in sources} == {variables["datasource"]["query"]}


def test_the_dashboard_over_prometheus_uses_gauges_that_are_written():
    board = Board.of_snapshot(make_snapshot())
    written = {
        line.partition(" ")[0].partition("{")[0]
        for streaming in (True, False)
        for line in exposition(board, streaming).splitlines()
        if not line.startswith("#")
    }
    used = {
        name
        for _, target in list_targets(load_dashboard("prometheus"))
        for name in re.findall(r"hushgram_\w+", target["expr"])
    }
    assert used <= written
    assert len(used) > 10


def test_the_guide_names_the_metrics_of_lineage_that_beam_has():
    text = (DOCS / "dashboards.md").read_text(encoding="utf-8")
    for name in (Lineage.LINEAGE_NAMESPACE, Lineage.SOURCE, Lineage.SINK):
        assert f"`{name}`" in text
