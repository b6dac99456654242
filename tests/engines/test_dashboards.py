"""Every query of Grafana's dashboards and of their guide, run by PostgreSQL and by Prometheus."""

import math
import re
import time
from contextlib import closing
from datetime import UTC, datetime

import numpy as np
import pytest

from devtools.processes import eventually
from hushgram import Collection
from hushgram.schemas.records import DeadLetter, Key, Pane
from hushgram.transforms.estimation import snapshots
from hushgram.transforms.sinks.latest import Board
from hushgram.transforms.sinks.postgresql import Writer, prepare_tables
from hushgram.transforms.sinks.prometheus import exposition
from hushgram.transforms.tallies import Tallies
from tests.helpers.dashboards import fill_in, fill_in_times, list_targets, load_dashboard
from tests.helpers.documents import read_examples
from tests.helpers.reports import HOUR, START

GROUPS = ["DE", 'it\'s "FR"']
COMMUTE = Collection(
    name="commute", low=0, high=180, buckets=256, epsilon=2, unit="minutes", groups=GROUPS, quantiles=[0.99, 0.999]
)
HOURS = 3
TIMES = [datetime.fromtimestamp((START + hour * HOUR) / 1000, UTC).isoformat() for hour in (0, HOURS)]


def make_answers():
    """Snapshots of some hours, of both groups and of both together."""
    rng = np.random.default_rng(1)
    windows = []
    for hour in range(HOURS):
        for group, reports in ((None, 3000), (GROUPS[0], 2000), (GROUPS[1], 1000)):
            tally = COMMUTE.tally(COMMUTE.simulate(180 * rng.beta(2, 5, reports), seed=hour))
            key = Key("commute", group, START + hour * HOUR, START + (hour + 1) * HOUR)
            windows.append((key, Pane(), Tallies({COMMUTE.revision: (reports, tally)})))
    return snapshots(COMMUTE, windows)


ANSWERS = make_answers()
NEWEST = {answer.key.group: answer for answer in ANSWERS[-3:]}

# PostgreSQL ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(postgres):
    prepare_tables(postgres.url)
    with closing(Writer(postgres.url)) as writer:
        writer.write(ANSWERS)
    return postgres


def run_sql(database, query, groups=("(all)",)):
    """The names of columns and the rows of an answer to a query of the dashboard."""
    filled = fill_in(fill_in_times(query, *TIMES), {"collection": "commute", "group": groups, "threshold": "60"})
    with database.connect() as connection:
        cursor = connection.execute(filled)
        return [column.name for column in cursor.description], cursor.fetchall()


@pytest.mark.parametrize("groups", [["(all)"], GROUPS], ids=["all together", "two groups"])
def test_every_query_over_postgresql_has_an_answer(database, groups):
    dashboard = load_dashboard("postgresql")
    for title, target in list_targets(dashboard):
        names, rows = run_sql(database, target["rawSql"], groups)
        assert rows, title
        assert all(value is not None for row in rows for value in row) or title.startswith("Windows"), title
        if target["format"] == "time_series":
            assert names[:2] == ["time", "metric"], title
            assert {row[0].timestamp() for row in rows} == {(START + hour * HOUR) / 1000 for hour in range(HOURS)}
            assert len({row[:2] for row in rows}) == len(rows), title
        assert not run_sql(database, target["rawSql"], ["nobody"])[1], title


def test_variables_over_postgresql_list_collections_and_groups(database):
    queries = {
        v["name"]: v["query"] for v in load_dashboard("postgresql")["templating"]["list"] if v["type"] == "query"
    }
    assert run_sql(database, queries["collection"])[1] == [("commute",)]
    assert {name for [name] in run_sql(database, queries["group"])[1]} == {"(all)", *GROUPS}


def test_panels_over_postgresql_show_the_numbers_of_the_snapshots(database):
    queries = {title: target["rawSql"] for title, target in list_targets(load_dashboard("postgresql"))}
    newest, bins = NEWEST[None], NEWEST[None].readable_bins()
    median = newest.median, *newest.interval("median")
    assert run_sql(database, queries["Median"])[1][-1][2:] == median
    metrics = {row[1]: row[2] for row in run_sql(database, queries["Quantiles"])[1][-7:]}
    assert metrics == {
        f"(all) {100 * share:g} %": newest.quantile(share) for share in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
    }
    _, rows = run_sql(database, queries["Distribution of the newest window"])
    shares = [newest.probability(low, high) for low, high in zip(bins.edges, bins.edges[1:], strict=False)]
    # The reference is a difference of shares, which costs small ones their last digits.
    np.testing.assert_allclose([row[1] for row in rows], shares / np.diff(bins.edges), rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal([row[2:] for row in rows], np.transpose([bins.low, bins.high]))


def test_the_query_of_the_documents_gives_the_share_up_to_a_threshold(database):
    [query] = read_examples("dashboards.md", "PostgreSQL", "sql")
    with database.connect() as connection:
        rows = connection.execute(query).fetchall()
    assert len(rows) == len(ANSWERS)
    edge = max(edge for edge in NEWEST[None].edges if edge <= 60)
    shares = {(answer.key.group_name, answer.key.window_start): answer.cdf(edge) for answer in ANSWERS}
    for group, start, share, low, high in rows:
        assert share == pytest.approx(shares[group, 1000 * start.timestamp()], rel=1e-9)
        assert low <= share <= high


# Prometheus ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scraped(prometheus):
    """Prometheus, once it has scraped the newest windows, and refusals that grow."""
    board = Board.merge(map(Board.of_snapshot, ANSWERS))
    for refused in (1, 2):
        letters = [Board.of_letter(DeadLetter("too_old", refused, "", "t[0]", 1, START))]
        letters += [Board.of_letter(DeadLetter("undecodable", None, "", "t[0]", 1, START))] * refused
        prometheus.expose(exposition(Board.merge([board, *letters]), streaming=True))
        total = f'hushgram_refused_reports_total{{reason="too_old"}} == {refused}'
        eventually(f"a scrape of {refused}", lambda total=total: prometheus.ask("query", query=total)["result"])
    rising = "increase(hushgram_refused_reports_total[5m])"
    eventually("two scrapes", lambda: prometheus.ask("query", query=rising)["result"])
    return prometheus


def run_promql(scraped, query, group="^$"):
    values = {"collection": "commute", "group": group, "quantile": "0.9", "__rate_interval": "5m"}
    return run_plain(scraped, fill_in(query, values))


def run_plain(scraped, query):
    return [(entry["metric"], float(entry["value"][1])) for entry in scraped.ask("query", query=query)["result"]]


@pytest.mark.parametrize("group", ["^$", "DE|" + re.escape(GROUPS[1]).replace("\\", "\\\\").replace('"', '\\"')])
def test_every_query_over_prometheus_has_an_answer(scraped, group):
    for title, target in list_targets(load_dashboard("prometheus")):
        query = target["expr"]
        answers = run_promql(scraped, query, group)
        assert answers, title
        assert all(math.isfinite(value) for _, value in answers), title
        legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) - {"group"}
        assert all(legend <= set(labels) for labels, _ in answers), title
        start, end = str(time.time() - 30), str(time.time())
        filled = fill_in(query, {"collection": "commute", "group": group, "quantile": "0.9", "__rate_interval": "5m"})
        ranges = scraped.ask("query_range", query=filled, start=start, end=end, step="1")
        assert ranges["result"], title
        if "$group" in query and "sum" not in query:
            assert {labels.get("group") for labels, _ in answers} == ({None} if group == "^$" else set(GROUPS)), title


def test_variables_over_prometheus_list_collections_and_groups(scraped):
    listed = {}
    for variable in load_dashboard("prometheus")["templating"]["list"]:
        if variable["type"] == "query":
            [(series, label)] = re.findall(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            parameters = {"match[]": fill_in(series, {"collection": "commute"})}
            listed[variable["name"]] = scraped.ask(f"label/{label}/values", **parameters)
    assert listed == {"collection": ["commute"], "group": sorted(GROUPS)}


def test_quantiles_of_the_histogram_are_those_of_the_snapshot(scraped):
    """To within a bucket of the histogram, 1/32 of the domain: between edges values count as evenly spread."""
    simple, together, above = read_examples("dashboards.md", "Prometheus", "promql")
    found = {labels.get("group"): value for labels, value in run_plain(scraped, simple)}
    assert set(found) == {None, *GROUPS}
    for group, value in found.items():
        assert value == pytest.approx(NEWEST[group].quantile(0.9), abs=180 / 32)
    [(labels, value)] = run_plain(scraped, together)
    assert labels == {}
    assert value == pytest.approx(NEWEST["DE"].quantile(0.9), abs=180 / 32)
    shares = {labels.get("group"): value for labels, value in run_plain(scraped, above)}
    assert set(shares) == {None, *GROUPS}
    for group, share in shares.items():
        assert share == pytest.approx(1 - NEWEST[group].cdf(90), rel=1e-6)


def test_a_window_with_fewer_reports_replaces_the_histogram(scraped):
    """No counter: the next window's quantile is its own, whatever came before."""
    before = exposition(Board.merge(map(Board.of_snapshot, ANSWERS)), streaming=True)
    tally = COMMUTE.tally(COMMUTE.simulate([150.0] * 500, seed=1))
    key = Key("commute", None, START + HOURS * HOUR, START + (HOURS + 1) * HOUR)
    [later] = snapshots(COMMUTE, [(key, Pane(), Tallies({COMMUTE.revision: (500, tally)}))])
    scraped.expose(exposition(Board.of_snapshot(later), streaming=True))
    try:
        query = 'hushgram_value_count{collection="commute", group=""} == 500'
        eventually("a scrape of the later window", lambda: scraped.ask("query", query=query)["result"])
        [(_, value)] = run_promql(scraped, 'histogram_quantile(0.5, hushgram_value_bucket{group=~"$group"})')
        assert value == pytest.approx(later.median, abs=180 / 32)
    finally:
        scraped.expose(before)
