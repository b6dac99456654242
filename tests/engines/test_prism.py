"""Kafka and a watched directory to files on Prism: the same pipeline on one machine."""

import os
import random
import signal
import stat
import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from devtools.processes import eventually
from hushgram.pipelines.results import read_results
from hushgram.schemas.messages import decode_message
from hushgram.schemas.records import Snapshot
from hushgram.transforms.sinks.postgresql import prepare_tables
from tests.helpers.reports import compute_tallies, encode_avro_file
from tests.helpers.stopping import COMMAND, SIGNALS, Program
from tests.helpers.streams import make_mixed_stream, read_letters, read_topic, recreate
from tests.helpers.tables import read_rows


def test_a_kafka_topic_on_prism_is_counted_exactly(broker, collections, topic, prism, now, start_stream):
    early, later = (
        make_mixed_stream(collections, now, seed=11, count=100),
        make_mixed_stream(collections, now, seed=61, count=100),
    )
    snapshots = broker.create_topic(f"{topic.name}-snapshots", **{"cleanup.policy": "compact"})
    topic.send(early.messages)
    run = start_stream(*topic.options, f"--prism_location={prism}", f"--sink=kafka:{snapshots}")
    run.until_first_pane()
    topic.send(later.messages)
    early.add(later)
    run.until_tallies(compute_tallies(list(collections.values()), early.accepted))
    run.until_letters(early.refused, early.of_unknown_number)

    def read_best():
        return {s.key.text: _rank_and_shares(s) for s in read_results(str(run.output), "snapshots", Snapshot.from_avro)}

    eventually("the best panes in the topic", lambda: _read_newest(broker, snapshots) == read_best())
    _check_end_on_sigterm(run)
    assert {0.999 in shares for key, (_, shares) in read_best().items() if key.startswith("commute/")} == {True}


def test_a_watched_directory_on_prism_is_counted_exactly(collections, prism, now, start_stream, tmp_path):
    """Also with names of every kind, entries that are not files, and files that cannot be read, at first or at all."""
    stream = make_mixed_stream(collections, now, seed=21, count=100)
    inbox = tmp_path / "in[box] \\"
    inbox.mkdir()
    rows = [row for row in stream.accepted if row["id"] is None]
    (inbox / "first.avro").write_bytes(encode_avro_file(rows[::4]))
    (inbox / "back\\slash [1].avro").write_bytes(encode_avro_file(rows[1::4]))
    (inbox / "late.avro").symlink_to(tmp_path / "later")  # leads nowhere yet
    (inbox / "loop.avro").symlink_to("loop.avro")
    (inbox / "broken.avro").symlink_to("/proc/self/mem")  # a regular file whose first byte nobody can read
    os.mkfifo(inbox / "fifo.avro")
    os.mknod(inbox / "socket.avro", stat.S_IFSOCK | 0o600)
    run = start_stream("--watch", inbox, "--watch-patience=10s", f"--prism_location={prism}")
    run.until_first_pane()
    hidden = inbox / ".second"
    hidden.write_bytes(encode_avro_file(rows[2::4]))
    hidden.rename(inbox / "new\nline.avro")
    (inbox / "third.avro").write_bytes(b"no avro")
    (tmp_path / "later").write_bytes(encode_avro_file(rows[3::4]))
    run.until_tallies(compute_tallies(list(collections.values()), rows))
    run.until_letters({}, 3)
    _check_end_on_sigterm(run)
    letters = {Path(letter.source).name: letter for letter in read_letters(run.output)}
    assert {name: letter.reason for name, letter in letters.items()} == {
        "loop.avro": "unreadable",
        "broken.avro": "unreadable",
        "third.avro": "undecodable",
    }
    assert "Too many levels of symbolic links" in letters["loop.avro"].detail
    log = (run.output.parent / f"{run.output.name}.log").read_text()
    assert "fifo.avro': passed over: a FIFO" in log
    assert "socket.avro': passed over: a socket" in log
    for name in ("loop", "broken"):
        assert log.count(f"{name}.avro': cannot be read, will be tried again for 10s") == 1
        assert log.count(f"{name}.avro': given up") == 1
    assert "Traceback" not in log


def test_a_topic_that_is_created_again_is_counted_on_prism(broker, collections, topic, prism, now, start_stream):
    """Messages read from the old topic stay counted; the new one is counted from its first message on."""
    old, new = (make_mixed_stream(collections, now, seed=seed, count=100) for seed in (71, 81))
    topic.send(old.messages)
    run = start_stream(*topic.options, f"--prism_location={prism}")
    run.until_tallies(compute_tallies(list(collections.values()), old.accepted))
    recreated = recreate(broker, topic)
    recreated.send(new.messages)
    old.add(new)
    run.until_tallies(compute_tallies(list(collections.values()), old.accepted))
    # And one letter for each partition, for messages that may have been deleted unread.
    run.until_letters(old.refused, old.of_unknown_number + 4)
    assert "the topic was deleted and created again" in run.process.log.read_text()
    _check_end_on_sigterm(run)


def test_tables_of_a_stream_on_prism_survive_an_outage(collections, prism, now, start_stream, postgres, tmp_path):
    """PostgreSQL is killed while panes come, and comes back; its table is away for a while; Prometheus sees the newest
    and what was refused."""
    stream = make_mixed_stream(collections, now, seed=31, count=100)
    rows = [row for row in stream.accepted if row["id"] is None]
    inbox, metrics_file = tmp_path / "inbox", tmp_path / "hushgram.prom"
    inbox.mkdir()

    def move_in(name, rows):
        hidden = inbox / f".{name}"
        hidden.write_bytes(encode_avro_file(rows))
        hidden.rename(inbox / name)

    def count_lines(text):
        return sum(f"--sink {postgres.url}: {text}" in line for line in run.process.log.read_text().splitlines())

    move_in("first.avro", rows[::3])
    (inbox / "no.avro").write_bytes(b"no avro")
    prepare_tables(postgres.url)
    sinks = f"--sink={postgres.url}", f"--sink=prometheus:{metrics_file}"
    run = start_stream("--watch", inbox, f"--prism_location={prism}", *sinks)
    eventually("the first rows", lambda: read_rows(postgres))
    postgres.kill()
    move_in("second.avro", rows[1::3])
    eventually("the first line", lambda: count_lines("waiting, for at most 10m"))
    postgres.start()
    eventually("the line after it", lambda: count_lines("back after"))
    with postgres.connect() as connection:
        connection.execute("ALTER TABLE hushgram_snapshots RENAME TO elsewhere")
        move_in("third.avro", rows[2::3])
        eventually("the second line", lambda: count_lines("waiting, for at most 10m") == 2)
        connection.execute("ALTER TABLE elsewhere RENAME TO hushgram_snapshots")
    run.until_tallies(compute_tallies(list(collections.values()), rows))
    run.until_letters({}, 1)

    def read_best():
        return read_results(str(run.output), "snapshots", Snapshot.from_avro)

    eventually("the rows", lambda: read_rows(postgres) == [s.to_avro() for s in read_best()])
    assert (count_lines("waiting"), count_lines("back after")) == (2, 2)
    newest = {(s.key.collection, s.key.group or ""): s for s in sorted(read_best(), key=lambda s: s.key.window_end)}
    expected = {key: (s.reports, s.mean) for key, s in newest.items()}
    eventually("the gauges", lambda: read_gauges(metrics_file) == (expected, 1))
    _check_end_on_sigterm(run)


def test_a_sink_that_stays_away_ends_a_stream_on_prism_with_a_line(
    collections, prism, now, start_stream, postgres, tmp_path
):
    rows = [row for row in make_mixed_stream(collections, now, seed=41, count=20).accepted if row["id"] is None]
    (tmp_path / "first.avro").write_bytes(encode_avro_file(rows))
    prepare_tables(postgres.url)
    with postgres.connect() as connection:
        options = "--watch", tmp_path, f"--prism_location={prism}", f"--sink={postgres.url}", "--sink-patience=1s"
        run = start_stream(*options)
        eventually("the start", lambda: "reading" in run.process.log.read_text())
        connection.execute("ALTER TABLE hushgram_snapshots RENAME TO elsewhere")
        assert run.process.join(120) == 2, run.process.tail()
    missing = 'relation "hushgram_snapshots" does not exist'
    start, waiting, end = run.process.log.read_text().splitlines()
    assert start.startswith("reading ")
    assert waiting.endswith(f"--sink {postgres.url}: waiting, for at most 1s: {missing}")
    assert end == f"hushgram: the job ended: --sink {postgres.url}: not there after 1s (--sink-patience): {missing}"


def read_gauges(path):
    """Reports and mean by collection and group, and the places that could not be read."""
    samples = {}
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[sample.labels.get("collection"), sample.labels.get("group", "")] = (
                sample.value
            )
    means = samples["hushgram_mean"]
    reports_and_means = {key: (samples["hushgram_reports"][key], mean) for key, mean in means.items()}
    return reports_and_means, samples["hushgram_unreadable_places_total"][None, ""]


def test_a_stream_on_prism_ends_at_any_moment_with_one_line(collections, prism, folder, tmp_path):
    """While it is loaded, while Prism starts, and while it runs; nothing stays, no process and no file."""
    rng = random.Random(13)
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    arguments = ["--collections", folder / "collections.yaml", "--watch", inbox, "--output", tmp_path / "out"]
    for number, latest_seconds in zip((*SIGNALS, signal.SIGINT, signal.SIGINT), (1, 3, 5, 8, 8), strict=True):
        program = Program([*COMMAND, "stream", *arguments, f"--prism_location={prism}"], tmp_path)
        program.until_ready()
        time.sleep(rng.random() * latest_seconds)
        program.send_often(number, rng)
        code, _, errors = program.end()
        *others, last = errors.splitlines()
        assert (code, last) == (128 + number, "hushgram: stopped"), errors
        assert all(line.startswith("WARNING PrismRunner: empty transform") for line in others), errors
        program.check_nothing_is_left()


def _check_end_on_sigterm(run):
    """And leaves nothing running, and nothing in the temporary folder."""
    os.kill(run.process.pid, signal.SIGTERM)
    eventually("the end", lambda: not run.process.alive, 30)
    assert run.process.returncode == 143, run.process.tail()
    assert run.process.log.read_text().splitlines()[-1] == "hushgram: stopped"
    eventually("the end of Prism", lambda: not run.process.members(), 30)
    assert list(run.temporary.iterdir()) == []


def _read_newest(broker, topic):
    """The content of a compacted topic: of each key the last value."""
    return {
        message.key().decode(): _rank_and_shares(Snapshot.from_avro(decode_message(message.value())[1]))
        for message in read_topic(broker.address, topic)
    }


def _rank_and_shares(snapshot):
    """Which pane it is, and of which quantiles: those of the collection are among them."""
    return snapshot.rank, [quantile.share for quantile in snapshot.quantiles]
