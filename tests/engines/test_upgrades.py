"""A job on Flink goes on from its savepoint although its collections and its parallelism have changed."""

import pytest
import yaml

from devtools.processes import ProcessError
from hushgram import load_collections
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from tests.helpers.reports import exact_tallies, report_rows
from tests.helpers.streams import YAML, everything

WALK = """collections:
  walk:
    domain: {low: 0, high: 10}
    buckets: 16
    epsilon: 1.0
    windows: {size: 5m, max_delay: 2s, max_age: 1h, early: 2s}
"""
REFUSED = "operator is not available in the new program"


@pytest.fixture
def grown(folder):
    """The same collections, and in front of them one with windows of its own."""
    path = folder / "grown.yaml"
    path.write_text(WALK + YAML.partition("collections:\n")[2])
    return path


@pytest.fixture
def shrunk(folder, grown):
    """One collection less, and its windows are nobody's now."""
    entries = yaml.safe_load(grown.read_text())
    del entries["collections"]["age"]
    path = folder / "shrunk.yaml"
    path.write_text(yaml.safe_dump(entries, sort_keys=False))
    return path


def test_a_job_goes_on_with_other_collections_and_another_parallelism(
    collections, topic, on_flink, cluster, grown, shrunk, now
):
    first, second = (everything(collections, now, seed=seed, count=60) for seed in (700, 750))
    walk = load_collections(grown)["walk"]
    walks = [{**row, "event_time": now} for row in report_rows(walk, 100, seed=7, ids=True)]
    known = [walk, *collections.values()]
    topic.send(first.messages)
    run, job = on_flink()
    run.until_tallies(exact_tallies(list(collections.values()), first.accepted))

    savepoint = cluster.stop_with_savepoint(job)
    # Repeated after the savepoint: only the ids kept in its state tell that they have come before.
    topic.send([*second.messages, *first.messages_with_ids, *(encode_message(REPORT, row) for row in walks)])
    first.add(second)
    resume = [f"--savepoint_path={savepoint}", "--collections", grown]
    with pytest.raises(ProcessError, match=REFUSED):
        on_flink(*resume, "--parallelism=1")  # Flink joins the first steps then, and names them otherwise
    run, job = on_flink(*resume, "--parallelism=4")
    run.until_tallies(exact_tallies(known, [*first.accepted, *walks]))

    savepoint = cluster.stop_with_savepoint(job)
    walks.append({**walks[0], "id": bytes(16)})
    topic.send([encode_message(REPORT, walks[-1])])
    resume = [f"--savepoint_path={savepoint}", "--collections", shrunk, "--parallelism=3"]
    with pytest.raises(ProcessError, match=REFUSED):
        on_flink(*resume)
    run, _ = on_flink(*resume, "--allow_non_restored_state")
    run.until_tallies(exact_tallies(known, [*first.accepted, *walks]))
