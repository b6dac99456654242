"""Kafka and a watched directory to files on Prism: the same pipeline on one machine."""

import os
import random
import signal
import time

from prometheus_client.parser import text_string_to_metric_families
from reports import avro_file, exact_tallies
from stopping import COMMAND, SIGNALS, Program
from streams import everything, read_topic
from tables import rows_in

from deploy.local.processes import eventually
from pipelines.results import read_results
from schemas.messages import decode_message
from schemas.records import Snapshot
from transforms.sinks.kafka import message_key
from transforms.sinks.postgresql import prepare_tables


def test_a_topic_on_prism(broker, collections, topic, prism, now, start_stream):
    early, later = everything(collections, now, seed=11, count=100), everything(collections, now, seed=61, count=100)
    snapshots = broker.create_topic(f"{topic.name}-snapshots", **{"cleanup.policy": "compact"})
    topic.send(early.messages)
    run = start_stream(*topic.options, f"--prism_location={prism}", f"--sink=kafka:{snapshots}")
    run.until_some()
    topic.send(later.messages)
    early.add(later)
    run.until_tallies(exact_tallies(list(collections.values()), early.accepted))
    run.until_letters(early.refused, early.of_unknown_number)
    _ends_when_asked(run)
    best = {message_key(s.key): s.rank for s in read_results(str(run.output), "snapshots", Snapshot.from_avro)}
    assert _newest(broker, snapshots) == best


def test_a_watched_directory_on_prism(collections, prism, now, start_stream, tmp_path):
    stream = everything(collections, now, seed=21, count=100)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    rows = [row for row in stream.accepted if row["id"] is None]
    (inbox / "first.avro").write_bytes(avro_file(rows[::2]))
    run = start_stream("--watch", inbox, f"--prism_location={prism}")
    run.until_some()
    hidden = inbox / ".second"
    hidden.write_bytes(avro_file(rows[1::2]))
    hidden.rename(inbox / "second.avro")
    (inbox / "third.avro").write_bytes(b"no avro")
    run.until_tallies(exact_tallies(list(collections.values()), rows))
    run.until_letters({}, 1)
    _ends_when_asked(run)


def test_tables_of_a_stream_on_prism(collections, prism, now, start_stream, postgres, tmp_path):
    """PostgreSQL is killed while panes come, and comes back; Prometheus sees the newest and what was refused."""
    stream = everything(collections, now, seed=31, count=100)
    rows = [row for row in stream.accepted if row["id"] is None]
    inbox, exposed = tmp_path / "inbox", tmp_path / "hushgram.prom"
    inbox.mkdir()
    (inbox / "first.avro").write_bytes(avro_file(rows[::2]))
    (inbox / "no.avro").write_bytes(b"no avro")
    prepare_tables(postgres.url)
    sinks = f"--sink={postgres.url}", f"--sink=prometheus:{exposed}"
    run = start_stream("--watch", inbox, f"--prism_location={prism}", *sinks)
    eventually("the first rows", lambda: rows_in(postgres), 90)
    postgres.kill()
    hidden = inbox / ".second"
    hidden.write_bytes(avro_file(rows[1::2]))
    hidden.rename(inbox / "second.avro")
    time.sleep(5)  # more panes are due in that time
    postgres.start()
    run.until_tallies(exact_tallies(list(collections.values()), rows))
    run.until_letters({}, 1)

    def best():
        return read_results(str(run.output), "snapshots", Snapshot.from_avro)

    eventually("the rows", lambda: rows_in(postgres) == [s.to_avro() for s in best()], 60)
    newest = {(s.key.collection, s.key.group or ""): s for s in sorted(best(), key=lambda s: s.key.window_end)}
    expected = {key: (s.reports, s.mean) for key, s in newest.items()}
    eventually("the gauges", lambda: gauges(exposed) == (expected, 1), 60)
    _ends_when_asked(run)


def gauges(path):
    """Reports and mean by collection and group, and the places that could not be read."""
    found = {}
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[sample.labels.get("collection"), sample.labels.get("group", "")] = (
                sample.value
            )
    means = found["hushgram_mean"]
    shown = {key: (found["hushgram_reports"][key], mean) for key, mean in means.items()}
    return shown, found["hushgram_unreadable_places_total"][None, ""]


def test_a_stream_on_prism_ends_at_any_moment_with_one_line(collections, prism, folder, tmp_path):
    """While it is loaded, while Prism starts, and while it runs; nothing stays, no process and no file."""
    rng = random.Random(13)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    given = ["--collections", folder / "collections.yaml", "--watch", inbox, "--output", tmp_path / "out"]
    for number, latest_seconds in zip((*SIGNALS, signal.SIGINT, signal.SIGINT), (1, 3, 5, 8, 8), strict=True):
        program = Program([*COMMAND, "stream", *given, f"--prism_location={prism}"], tmp_path)
        program.until_ready()
        time.sleep(rng.random() * latest_seconds)
        program.send_often(number, rng)
        code, _, errors = program.end()
        *others, last = errors.splitlines()
        assert (code, last) == (128 + number, "hushgram: stopped"), errors
        assert all(line.startswith("WARNING PrismRunner: empty transform") for line in others), errors
        program.check_nothing_is_left()


def _ends_when_asked(run):
    """And leaves nothing running, and nothing in the temporary folder."""
    os.kill(run.process.pid, signal.SIGTERM)
    eventually("the end", lambda: not run.process.alive, 30)
    assert run.process.returncode == 143, run.process.tail()
    assert run.process.log.read_text().splitlines()[-1] == "hushgram: stopped"
    eventually("the end of Prism", lambda: not run.process.members(), 30)
    assert list(run.temporary.iterdir()) == []


def _newest(broker, topic):
    """What a compacted topic holds: of each key the last value."""
    return {
        message.key(): Snapshot.from_avro(decode_message(message.value())[1]).rank
        for message in read_topic(broker.address, topic)
    }
