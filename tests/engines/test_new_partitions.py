"""A topic that grows under load: every count exact, and no report late because its partition is new."""

import threading
import time

import pytest

from devtools.processes import eventually
from hushgram import load_collections
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from tests.helpers.documents import DOCS
from tests.helpers.reports import compute_tallies, make_report_rows
from tests.helpers.streams import check_on_time_panes, read_on_time_panes

SHORT = """
collections:
  commute:
    domain: {low: 0, high: 180, unit: minutes}
    buckets: 32
    epsilon: 1.0
    groups: [DE, FR]
    windows: {size: 3s, max_delay: 1s, max_age: 1h, early: 1s}
"""
STEPS, STEP_SECONDS = 80, 0.1
REPORTS = 400
"""Of a step: four thousand a second, each a message of its own."""
GROWTH = {25: 6, 26: 7, 50: 9}
"""Partitions that the topic has from a step on; messages follow at once, before anybody can have found them."""


@pytest.fixture(scope="module")
def short_windows(folder):
    path = folder / "short.yaml"
    path.write_text(SHORT)
    return path


class Load(threading.Thread):
    """Reports of the moment in which they are sent, as many a second as are said above, if the machine can."""

    def __init__(self, topic, collection):
        super().__init__()
        self.topic, self.collection, self.rows = topic, collection, []
        # Drawn before, so that nothing but sending takes time.
        self.steps = [make_report_rows(collection, REPORTS, seed=step, ids=True) for step in range(STEPS + 1)]

    def send(self, step):
        now = time.time_ns() // 1_000_000
        rows = [{**row, "event_time": now} for row in self.steps[step]]
        self.topic.send([encode_message(REPORT, row) for row in rows])
        self.rows += rows

    def run(self):
        began = time.monotonic()
        for step in range(STEPS):
            if step in GROWTH:
                self.topic.grow(GROWTH[step])
            self.send(step)
            time.sleep(max(0, began + (step + 1) * STEP_SECONDS - time.monotonic()))
        seconds = time.monotonic() - began
        print(f"{STEPS * REPORTS} reports in {seconds:.1f} s: {STEPS * REPORTS / seconds:.0f} a second")


def test_the_documents_say_how_much_comes_while_the_topic_grows():
    said = f"to {max(GROWTH.values())} partitions while {round(REPORTS / STEP_SECONDS):,} reports a second come"
    assert said in " ".join((DOCS / "streaming.md").read_text(encoding="utf-8").split())


@pytest.fixture
def load(topic, short_windows):
    return Load(topic, load_collections(short_windows)["commute"])


def until_all_is_counted(run, load):
    """The stream's counts, with partitions added while the load lasts."""
    run.until_first_pane()
    load.start()
    load.join()
    expected = compute_tallies([load.collection], load.rows)
    run.until_tallies(expected)
    return expected


def test_partitions_added_under_load_are_counted_exactly_and_on_time_on_flink(
    topic, load, short_windows, on_flink, cluster
):
    load.send(STEPS)
    run, job = on_flink("--collections", short_windows)
    expected = until_all_is_counted(run, load)
    # New partitions hold the watermark until their messages are read; empty ones do not hold it for ever.
    eventually("all on-time panes", lambda: len(read_on_time_panes(run.output)) == len(expected))
    check_on_time_panes(topic, {"commute": load.collection}, load.rows, run.output)
    assert cluster.dropped_late(job) == 0


def test_partitions_added_under_load_are_counted_exactly_on_prism(topic, load, short_windows, prism, start_stream):
    """Panes' timing is not looked at: Prism labels it otherwise."""
    load.send(STEPS)
    run = start_stream(*topic.options, f"--prism_location={prism}", collections=short_windows)
    until_all_is_counted(run, load)
    assert "new partitions, read from their beginning: [7, 8]" in run.process.log.read_text()
