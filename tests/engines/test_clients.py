"""Reports of the clients in all languages, through a real Kafka broker and the pipeline."""

import numpy as np

from hushgram import load_collections
from hushgram.pipelines.conform.program import Program
from hushgram.pipelines.results import read_results
from hushgram.schemas.messages import decode_message
from hushgram.schemas.records import Snapshot
from tests.helpers.clients import CLIENTS, ask_for_messages
from tests.helpers.reports import compute_tallies
from tests.helpers.streams import MINUTE, unpack_batches
from tests.helpers.tools import run_or_skip

YAML = f"""
collections:
  commute:
    domain: {{low: 0, high: 180, unit: minutes}}
    buckets: 64
    epsilon: 2.0
    estimator: em
    groups: [{", ".join(CLIENTS)}]
    windows: {{size: 1m, max_delay: 2s, max_age: 1h, early: 2s, late_growth: 0}}
"""
TOGETHER, BATCHES, ALONE = 50, 300, 5_000
REPORTS = ALONE + BATCHES * TOGETHER


def test_reports_of_every_client_go_through_kafka_and_are_estimated(topic, prism, now, start_stream, tmp_path):
    """20,000 of each, a quarter of them alone, the others in batches. A mean is off by 4 standard errors, or a fit is
    that bad, in one of the four once in 1,250 times."""
    file = tmp_path / "collections.yaml"
    file.write_text(YAML)
    commute, time = load_collections(file)["commute"], now - 2 * MINUTE
    values = np.round(np.random.default_rng(3).gamma(4, 9, ALONE + BATCHES), 1)
    truth = (values[:ALONE].sum() + TOGETHER * values[ALONE:].sum()) / REPORTS
    rows = []
    for name, command in CLIENTS.items():
        with Program(run_or_skip(command), seconds=120.0) as client:
            alone = list(ask_for_messages(client, commute, values[:ALONE], name, time))
            batches = list(ask_for_messages(client, commute, values[ALONE:], name, time, TOGETHER))
        topic.send(alone + batches)
        rows += [decode_message(message)[1] for message in alone]
        rows += unpack_batches(commute, [decode_message(message)[1] for message in batches])
    run = start_stream(*topic.options, f"--prism_location={prism}", collections=file)
    run.until_tallies(compute_tallies([commute], rows))  # all of them: none was refused
    snapshots = {one.key.group: one for one in read_results(str(run.output), "snapshots", Snapshot.from_avro)}
    for name in CLIENTS:
        low, high = snapshots[name].interval("mean")
        assert abs(snapshots[name].mean - truth) < 2 * (high - low) / 2, name
        assert snapshots[name].fit_pvalue > 1e-4, name
