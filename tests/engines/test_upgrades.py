"""A job on Flink goes on from its savepoint although its collections and its parallelism have changed."""

import pytest
import yaml

from devtools.processes import ProcessError
from hushgram import load_collections
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from tests.helpers.reports import compute_tallies, make_report_rows
from tests.helpers.streams import YAML, make_mixed_stream

WALK = """collections:
  walk:
    domain: {low: 0, high: 10}
    buckets: 16
    epsilon: 1.0
    windows: {size: 5m, max_delay: 2s, max_age: 1h, early: 2s, late_growth: 0}
"""
REFUSED = "operator is not available in the new program"


@pytest.fixture
def extended_file(folder):
    """The same collections, and in front of them one with windows of its own."""
    path = folder / "grown.yaml"
    path.write_text(WALK + YAML.partition("collections:\n")[2])
    return path


@pytest.fixture
def reduced_file(folder, extended_file):
    """One collection less, and no other has its windows."""
    entries = yaml.safe_load(extended_file.read_text())
    del entries["collections"]["age"]
    path = folder / "shrunk.yaml"
    path.write_text(yaml.safe_dump(entries, sort_keys=False))
    return path


def test_a_job_goes_on_with_other_collections_and_another_parallelism(
    collections, topic, on_flink, cluster, extended_file, reduced_file, now
):
    first, second = (make_mixed_stream(collections, now, seed=seed, count=60) for seed in (700, 750))
    walk = load_collections(extended_file)["walk"]
    walks = [{**row, "event_time": now} for row in make_report_rows(walk, 100, seed=7, ids=True)]
    all_collections = [walk, *collections.values()]
    topic.send(first.messages)
    run, job = on_flink()
    run.until_tallies(compute_tallies(list(collections.values()), first.accepted))

    savepoint = cluster.stop_with_savepoint(job)
    # Repeated after the savepoint: only the ids kept in its state show that they have come before.
    topic.send([*second.messages, *first.messages_with_ids, *(encode_message(REPORT, row) for row in walks)])
    first.add(second)
    resume = [f"--savepoint_path={savepoint}", "--collections", extended_file]
    with pytest.raises(ProcessError, match=REFUSED):
        on_flink(*resume, "--parallelism=1")  # Flink joins the first steps then, and names them otherwise
    run, job = on_flink(*resume, "--parallelism=4")
    run.until_tallies(compute_tallies(all_collections, [*first.accepted, *walks]))

    savepoint = cluster.stop_with_savepoint(job)
    walks.append({**walks[0], "id": bytes(16)})
    topic.send([encode_message(REPORT, walks[-1])])
    resume = [f"--savepoint_path={savepoint}", "--collections", reduced_file, "--parallelism=3"]
    with pytest.raises(ProcessError, match=REFUSED):
        on_flink(*resume)
    run, _ = on_flink(*resume, "--allow_non_restored_state")
    run.until_tallies(compute_tallies(all_collections, [*first.accepted, *walks]))
