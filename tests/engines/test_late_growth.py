"""Late panes as they come by default, for a growth of 1 %; what is held back is shown when its window expires."""

import time

from devtools.processes import eventually
from hushgram import load_collections
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.messages import encode_message
from tests.helpers.streams import Topic, read_panes, read_topic

SETTING = "domain: {low: 0, high: 180}, buckets: 16, epsilon: 1.0"
COLLECTIONS = f"""
collections:
  held: {{{SETTING}, windows: &windows {{size: 1s, max_delay: 1s, max_age: 20s, early: null}}}}
  shown: {{{SETTING}, windows: *windows}}
  pace: {{{SETTING}, windows: {{size: 1s, max_delay: 1s, max_age: 20s, early: 1s}}}}
"""
"""The first two have no early panes: after one, Prism has no on-time pane if there is nothing new. For the third, which
has no reports, panes are put into files every second."""
ATTEMPTS = 20


def read_reports(run, window, name):
    """The reports of each pane of a window."""
    panes = (pane for pane in read_panes(run.output) if pane.key.collection == name)
    return sorted(pane.reports for pane in panes if pane.key.window_start == window)


def test_few_late_reports_have_no_pane_of_their_own_and_are_in_the_last(
    folder, broker, topic, prism, on_flink, start_stream, tmp_path
):
    """On Prism and Flink: two late reports of 300 are held back, until the window expires; three, which are 1 %, are
    shown at once. Where the machine is busy, late ones may be too old when they are sent: another window is tried."""
    path = tmp_path / "late.yaml"
    path.write_text(COLLECTIONS)
    collections = load_collections(path)
    assert {collection.windows.late_growth for collection in collections.values()} == {0.01}
    letters = Topic(broker, f"{topic.name}-letters", 1)
    options = [f"--dead-letters=kafka:{letters.name}"]
    runs = [
        start_stream(*topic.options, f"--prism_location={prism}", *options, suffix="-prism", collections=path),
        on_flink(*options, suffix="-flink", collections=path)[0],
    ]
    topic.partitions = 1  # of those that it has: messages are read in their order

    def send(name, count):
        """In one message, so that they are counted at once."""
        row = {"collection": name, "revision": bytes.fromhex(collections[name].revision), "cells": bytes(count)}
        topic.send([encode_message(REPORT_BATCH, {**row, "event_time": window, "group": None, "id": None})])

    def all_have(name, panes):
        return all(read_reports(run, window, name) == panes for run in runs)

    def are_shown(panes):
        """Who shows these has counted what was sent before; false if a report was too old."""
        shown = eventually(f"panes {panes}", lambda: count_letters() > refused or all_have("shown", panes))
        return count_letters() == refused and shown

    def count_letters():
        return len(read_topic(broker.address, letters.name))

    for _ in range(ATTEMPTS):
        refused, window = count_letters(), time.time_ns() // 1_000_000_000 * 1000
        send("held", 300)
        send("shown", 300)
        eventually("on-time panes", lambda: all_have("held", [300]) and all_have("shown", [300]))
        send("held", 1)
        send("shown", 3)
        if not are_shown([300, 303]):
            continue
        send("held", 1)
        send("shown", 4)
        if are_shown([300, 303, 307]):
            break
    eventually("the last panes", lambda: all(read_reports(run, window, "held")[-1] == 302 for run in runs))
    assert all_have("held", [300, 302])
    assert all_have("shown", [300, 303, 307])
