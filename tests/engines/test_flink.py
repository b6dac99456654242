"""Kafka to Flink to files: every count exact, every refusal reported, whatever dies on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition

from devtools.processes import eventually
from hushgram import load_collections
from hushgram.pipelines.cli import command
from hushgram.pipelines.results import best, read_results, result_files
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.messages import encode_message
from hushgram.schemas.records import Snapshot
from hushgram.transforms.tallies import Tallies, encode
from tests.helpers.reports import compute_tallies, encode_avro_file, make_batch_rows, make_report_rows
from tests.helpers.streams import MINUTE, Stream, check_on_time_panes, make_mixed_stream, read_tallies
from tests.helpers.tables import read_rows

ROOT = Path(__file__).parents[2]
SPAN = 10.0
"""Seconds over which a stream that meets a fault is sent."""


def test_a_stream_of_good_and_bad_messages_on_flink_is_counted_exactly(
    folder, collections, topic, on_flink, cluster, postgres, now
):
    sink = ["--sink", _url_with_password_file(postgres, folder / "pgpass")]
    early, later = make_mixed_stream(collections, now, seed=1), make_mixed_stream(collections, now, seed=50)
    topic.send(early.messages)
    run, job = on_flink(*sink)
    run.until_first_pane()
    topic.send(later.messages)
    early.add(later)
    expected = compute_tallies(list(collections.values()), early.accepted)
    run.until_tallies(expected)
    run.until_letters(early.refused, early.of_unknown_number)
    assert cluster.dropped_late(job) == 0
    _wait_for_best_panes_in_table(postgres, run.output)
    _compare_estimates_with_batch_run(folder, collections, early, run.output)
    check_on_time_panes(topic, collections, early.accepted, run.output)
    _wait_until_all_is_read(topic)
    _check_job_outlives_command(run, cluster, job)
    cluster.cancel(job)

    # Replay: the same topic again, all of it backlog now.
    replay, _ = on_flink(*sink, suffix="-again")
    replay.until_tallies(expected)
    assert _encode_tallies(replay.output) == _encode_tallies(run.output)
    replay.until_letters(early.refused, early.of_unknown_number)
    _wait_for_best_panes_in_table(postgres, run.output, replay.output)


def _check_job_outlives_command(run, cluster, job):
    run.process.signal(signal.SIGINT)
    eventually("the end of the command", lambda: not run.process.alive)
    assert run.process.returncode == 130, run.process.tail()
    first, last = run.process.log.read_text().splitlines()  # and not a line of Beam's
    assert first.startswith("reading ")
    assert last == "hushgram: the job goes on; Flink is where it is stopped"
    assert [listed.state for listed in cluster.jobs() if listed.id == job] == ["RUNNING"]
    assert list(run.temporary.iterdir()) == []


def _url_with_password_file(postgres, file):
    """The address for workers that started before there was a password, which is not in their environment."""
    password = postgres.environment["PGPASSWORD"].replace(":", r"\:")
    file.write_text(f"*:*:*:*:{password}\n")
    file.chmod(0o600)
    return f"{postgres.url}?passfile={quote(str(file))}"


def _wait_for_best_panes_in_table(postgres, *outputs):
    """Of all panes that the runs have written to files, the best of each window."""

    def is_same():
        expected = best(s for output in outputs for s in read_results(str(output), "snapshots", Snapshot.from_avro))
        return read_rows(postgres) == [snapshot.to_avro() for snapshot in expected]

    eventually("the best panes in the table", is_same, 30)


def _compare_estimates_with_batch_run(folder, collections, stream, output):
    (folder / "accepted.avro").write_bytes(encode_avro_file([{**row, "id": None} for row in stream.accepted]))
    arguments = ["--collections", str(folder / "collections.yaml"), "--input", str(folder / "accepted.avro")]
    assert command.main(["aggregate", *arguments, "--output", str(folder / "batch")]) == 0
    streamed, batch = (
        {s.key: s for s in read_results(str(directory), "snapshots", Snapshot.from_avro)}
        for directory in (output, folder / "batch")
    )
    assert streamed.keys() == batch.keys()
    for key, snapshot in streamed.items():
        assert snapshot.reports == batch[key].reports
        np.testing.assert_allclose(snapshot.probabilities, batch[key].probabilities, atol=1e-9)
        np.testing.assert_allclose(snapshot.mean, batch[key].mean, rtol=1e-9)


def _wait_until_all_is_read(topic):
    """By the offsets that the job commits, which also show its lag to those who watch the broker."""
    consumer = Consumer({"bootstrap.servers": topic.broker.address, "group.id": "hushgram"})
    partitions = [TopicPartition(topic.name, partition) for partition in range(topic.partitions)]

    def is_committed():
        return (
            sum(max(0, partition_offset.offset) for partition_offset in consumer.committed(partitions, timeout=10))
            == topic.sent_count
        )

    eventually("the committed offsets", is_committed)
    consumer.close()


def _encode_tallies(output):
    return {
        key: encode(Tallies({key[3]: (sum(counts), np.array(counts))})) for key, counts in read_tallies(output).items()
    }


@pytest.mark.parametrize("fault", ["task_manager", "worker", "broker"])
def test_counts_are_exact_whatever_is_killed(collections, topic, on_flink, cluster, broker, now, fault):
    """A moment after partitions were added, and while they are written to."""
    parts = [make_mixed_stream(collections, now, seed=100 * part + 7, count=60) for part in range(1, 9)]
    total = Stream()
    for part in parts:
        total.add(part)
    topic.send(parts[0].messages)
    run, job = on_flink()
    run.until_first_pane()
    partly_sent = threading.Event()
    sender = threading.Thread(target=_send_slowly, args=(topic, parts[1:], partly_sent))
    sender.start()
    partly_sent.wait()
    if fault == "task_manager":
        cluster.kill_task_manager()
        cluster.start_task_manager()
    elif fault == "worker":
        os.kill(cluster.workers()[0], signal.SIGKILL)
    else:
        broker.kill()
        time.sleep(3)
        broker.start()
    sender.join()
    run.until_tallies(compute_tallies(list(collections.values()), total.accepted))
    assert cluster.dropped_late(job) == 0


def test_a_worker_that_is_killed_while_it_starts_is_started_again(collections, topic, on_flink, cluster, now):
    """A job waits without end for a worker that it was promised."""
    stream = make_mixed_stream(collections, now, seed=300, count=60)
    topic.send(stream.messages)
    before = set(cluster.workers())

    def kill_the_first():
        os.kill(eventually("a worker", lambda: set(cluster.workers()) - before).pop(), signal.SIGKILL)

    killer = threading.Thread(target=kill_the_first)
    killer.start()
    run, _ = on_flink()
    killer.join()
    run.until_tallies(compute_tallies(list(collections.values()), stream.accepted))


def test_a_job_as_in_production_survives_the_loss_of_every_part(
    collections, topic, on_cluster, sturdy_cluster, boot_pool, now
):
    """Beam's workers, RocksDB, incremental checkpoints, ZooKeeper; the TaskManager dies, then the JobManager."""
    parts = [make_mixed_stream(collections, now, seed=100 * part + 3, count=60) for part in range(1, 6)]
    total = Stream()

    def send(part):
        topic.send(part.messages)
        total.add(part)

    def wait_until_counted():
        run.until_tallies(compute_tallies(list(collections.values()), total.accepted))

    send(parts[0])
    nothing_staged = "--experiments=disable_logging_submission_environment"
    run, job = on_cluster(
        sturdy_cluster,
        f"--environment_config={boot_pool}",
        "--parallelism=2",
        "--sdk_worker_parallelism=2",
        nothing_staged,
    )
    run.until_first_pane()
    send(parts[1])
    sturdy_cluster.kill_task_manager()
    sturdy_cluster.start_task_manager()
    send(parts[2])
    wait_until_counted()
    send(parts[3])
    sturdy_cluster.kill_job_manager()
    sturdy_cluster.start_job_manager()
    # TaskManagers go on for a while without it: what is sent now, only the job that came back can count.
    running = [job]
    eventually(
        "the job", lambda: [listed.id for listed in sturdy_cluster.jobs() if listed.state == "RUNNING"] == running
    )
    send(parts[4])
    wait_until_counted()
    assert sturdy_cluster.dropped_late(job) == 0


@pytest.mark.parametrize("origin", ["savepoint", "checkpoint"])
def test_a_job_resumes_from_a_savepoint_or_a_checkpoint(collections, topic, on_flink, cluster, now, origin):
    """From the savepoint that it was stopped with; or, cancelled, from a checkpoint that it was configured to leave."""
    first, second = (make_mixed_stream(collections, now, seed=seed, count=100) for seed in (900, 950))
    topic.send(first.messages)
    run, job = on_flink("--externalized_checkpoints_enabled", "--retain_externalized_checkpoints_on_cancellation")
    run.until_tallies(compute_tallies(list(collections.values()), first.accepted))
    if origin == "savepoint":
        path = cluster.stop_with_savepoint(job)
    else:
        eventually("a checkpoint", lambda: cluster.checkpoints(job)["latest"]["completed"])
        cluster.cancel(job)
        # Asked of the job that has ended: until then a newer checkpoint may replace any that it names.
        path = cluster.checkpoints(job)["latest"]["completed"]["external_path"]
    topic.grow(7)
    # Repeated afterwards: only the ids kept in the state show that they have come before.
    topic.send([*second.messages, *first.messages_with_ids])
    resumed_run, _ = on_flink(f"--savepoint_path={path}")
    first.add(second)
    resumed_run.until_tallies(compute_tallies(list(collections.values()), first.accepted))
    _wait_until_all_is_read(topic)  # the repeated ones too
    resumed_run.until_tallies(compute_tallies(list(collections.values()), first.accepted))


LATE = """
collections:
  commute:
    domain: {low: 0, high: 180}
    buckets: 16
    epsilon: 1.0
    windows: {size: 1m, max_delay: 2s, max_age: 1h, early: 1s, late_growth: 50%}
"""


def test_late_reports_that_are_held_back_outlive_the_job_in_its_savepoint(folder, topic, on_flink, cluster, now):
    path = folder / "late.yaml"
    path.write_text(LATE)
    [collection] = load_collections(path).values()
    window, other_window = (now // MINUTE * MINUTE - minutes * MINUTE for minutes in (20, 10))

    def send(count, start):
        """In one message, so that they are counted at once."""
        row = {"collection": "commute", "revision": bytes.fromhex(collection.revision), "cells": bytes(count)}
        topic.send([encode_message(REPORT_BATCH, {**row, "event_time": start, "group": None, "id": None})])

    def shown():
        return {start: sum(counts) for (_, _, start, _), counts in read_tallies(run.output).items()}

    send(100, window)
    run, job = on_flink(collections=path)
    eventually("a pane that is not early", lambda: _timings(run.output).get(window) not in (None, "early"), 300)
    eventually("its histogram", lambda: shown() == {window: 100})
    send(40, window)
    _wait_until_all_is_read(topic)
    send(7, other_window)  # whoever sees these has counted those before
    eventually("the other window", lambda: other_window in shown(), 300)
    assert shown() == {window: 100, other_window: 7}
    savepoint = cluster.stop_with_savepoint(job)
    assert shown() == {window: 100, other_window: 7}
    run, _ = on_flink(f"--savepoint_path={savepoint}", collections=path)
    send(10, window)  # with the 40 before, half of what was shown
    eventually("the late pane", lambda: shown() == {window: 150, other_window: 7}, 300)
    eventually("its snapshot", lambda: _timings(run.output)[window] == "late")  # it is written after the histogram


def _timings(output):
    """By window the timing of its best pane so far."""
    if not result_files(str(output), "snapshots"):
        return {}
    return {
        snapshot.key.window_start: snapshot.pane.timing
        for snapshot in read_results(str(output), "snapshots", Snapshot.from_avro)
    }


def test_a_batch_job_on_flink_gives_the_results_of_a_local_run(folder, collections, cluster, tmp_path):
    rows = [row for collection in collections.values() for row in make_report_rows(collection, 2000, seed=5, ids=True)]
    batches = make_batch_rows(collections["age"], make_report_rows(collections["age"], 700, seed=6))
    (tmp_path / "one.avro").write_bytes(encode_avro_file([*rows, *rows[:100], {**rows[0], "cell": 10**6}]))
    (tmp_path / "two.avro").write_bytes(encode_avro_file(batches, REPORT_BATCH) + b"damage")
    arguments = ["--collections", folder / "collections.yaml", "--input", tmp_path / "*.avro", "--format=jsonl"]
    arguments += ["--as-of", "2026-01-02T00:00Z", "--output"]
    results = {}
    for place, options in (("here", []), ("flink", cluster.options())):
        command_line = [sys.executable, "-m", "hushgram", "aggregate", *arguments, tmp_path / place, *options]
        completed = subprocess.run(command_line, cwd=ROOT, capture_output=True, text=True)
        assert completed.returncode == 0, completed.stdout + completed.stderr
        summary = [line for line in completed.stdout.splitlines() if line.startswith(("read ", "and "))]
        [attempt] = [path.name for path in (tmp_path / place).glob("runs/*/*") if path.is_dir()]
        files = [(path, str(path.relative_to(tmp_path / place))) for path in (tmp_path / place).rglob("*.jsonl")]
        results[place] = summary, {name.replace(attempt, "ATTEMPT"): path.read_text() for path, name in files}
    assert results["flink"] == results["here"]


def _send_slowly(topic, parts, partly_sent):
    for number, part in enumerate(parts):
        topic.send(part.messages)
        if number == len(parts) // 3:
            topic.grow(6)
            partly_sent.set()
        time.sleep(SPAN / len(parts))
