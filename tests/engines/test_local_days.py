"""Days and weeks of a time zone on real engines, over a night in which its clocks are changed."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from hushgram import load_collections
from hushgram.pipelines.results import read_results
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import Histogram
from tests.helpers.reports import DAY, compute_tallies, find_windows, make_report_rows

ZONE = "Europe/Berlin"
YAML = """
collections:
  days:
    domain: {low: 0, high: 180}
    buckets: 16
    epsilon: 1.0
    groups: [DE]
    windows: {size: 1d, time_zone: Europe/Berlin, max_delay: 2s, max_age: 2d, early: 2s, late_growth: 0}
  sliding:
    domain: {low: 0, high: 180}
    buckets: 16
    epsilon: 1.0
    windows: {size: 3d, every: 1d, time_zone: Europe/Berlin, max_delay: 2s, max_age: 2d, early: 2s, late_growth: 0}
  weeks:
    domain: {low: 0, high: 180}
    buckets: 16
    epsilon: 1.0
    windows: {size: 1w, max_delay: 2s, max_age: 2d, early: 2s, late_growth: 0}
"""


def find_last_change():
    """The start of the latest day whose length was not 24 hours, by the standard library."""
    now = datetime.now(ZoneInfo(ZONE))
    midnight = datetime(now.year, now.month, now.day, tzinfo=now.tzinfo) - timedelta(days=7)
    while midnight.utcoffset() == (midnight + timedelta(days=1)).utcoffset():
        midnight -= timedelta(days=1)
    return int(midnight.timestamp()) * 1000


@pytest.mark.parametrize("engine", ["prism", "flink"])
def test_windows_of_a_zone_are_exact_when_its_clocks_change(engine, request, folder, topic, start_stream):
    """Messages carry the times of those days, so that the watermark passes through them; a third comes a day late."""
    path = folder / "local.yaml"
    path.write_text(YAML)
    collections = list(load_collections(path).values())
    change, rng = find_last_change(), np.random.default_rng(5)
    rows = [
        {**row, "event_time": int(change + rng.integers(-2 * DAY, 3 * DAY))}
        for seed, collection in enumerate(collections)
        for row in make_report_rows(collection, 150, seed, ids=seed == 0)
    ]
    edges = {edge for row in rows for edge in find_windows(collections[0].windows, row["event_time"])[0]}
    rows += [{**rows[0], "id": None, "event_time": edge - step} for edge in edges for step in (0, 1)]
    _send_in_order(topic, rows, [row["event_time"] + (DAY if index % 3 == 0 else 0) for index, row in enumerate(rows)])
    if engine == "prism":
        prism = request.getfixturevalue("prism")
        run = start_stream(*topic.options, "--collections", path, f"--prism_location={prism}")
    else:
        run, _ = request.getfixturevalue("on_flink")("--collections", path)
    run.until_tallies(compute_tallies(collections, rows))
    histograms = read_results(str(run.output), "histograms", Histogram.from_avro)
    for collection in collections:
        times = [row["event_time"] for row in rows if row["collection"] == collection.name]
        keys = {histogram.key for histogram in histograms if histogram.key.collection == collection.name}
        windows = {(key.window_start, key.window_end) for key in keys}
        assert windows == {window for time in times for window in find_windows(collection.windows, time)}
        assert len({end - start for start, end in windows}) == (1 if collection.name == "weeks" else 2)


def _send_in_order(topic, rows, received):
    for index in np.argsort(received, kind="stable").tolist():
        message = encode_message(REPORT, rows[index])
        topic.producer.produce(topic.name, message, partition=index % 4, timestamp=received[index])
    assert topic.producer.flush(60) == 0
