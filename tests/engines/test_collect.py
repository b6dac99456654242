"""The collector and a real broker: acknowledged means on the topic, whoever dies meanwhile."""

import json
import os
import random
import time
from collections import Counter
from functools import partial

import pytest

from devtools import Broker
from devtools.processes import eventually, free_port, listening
from hushgram.pipelines.cli import command
from hushgram.schemas.avro_schemas import DEAD_LETTER, REPORT, REPORT_BATCH
from hushgram.schemas.messages import PREFIX, decode_message, encode_message
from hushgram.schemas.records import DeadLetter
from hushgram.schemas.writer import write_container
from tests.helpers.collectors import (
    COLLECTIONS,
    FILE,
    JSON,
    YAML,
    Collector,
    as_kept,
    count_reports,
    make_message,
    make_row,
)
from tests.helpers.forked_collectors import Forks
from tests.helpers.reports import compute_tallies, encode_avro_file
from tests.helpers.senders import Sender, bodies_of
from tests.helpers.streams import read_tallies, read_topic
from tests.helpers.tools import run_or_skip

SCHEDULES = int(os.environ.get("SCHEDULES", "1"))
"""Random orders of kills; SCHEDULES=10 takes a few minutes."""
AWAY_SECONDS = float(os.environ.get("AWAY_SECONDS", "0"))
"""How long a broker is away, after the collector has found out: AWAY_SECONDS=60 takes a minute."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory):
    """One that may be killed."""
    service = Broker(tmp_path_factory.mktemp("collect") / "kafka")
    run_or_skip(service.start)
    yield service
    service.stop()


def read_kept(broker, topic):
    return count_reports([decode_message(message.value())[1] for message in read_topic(broker.address, topic)])


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_acknowledged_reports_are_on_the_topic_whoever_is_killed(seed, own_broker, tmp_path):
    """kill -9 of collector and broker in a random order under load; senders repeat what was not acknowledged."""
    topic = own_broker.create_topic(f"under-load-{seed}", 3)
    (tmp_path / "collections.yaml").write_text(YAML)
    rng, forks, port = random.Random(seed), Forks(), free_port()
    where = ["--collections", tmp_path / "collections.yaml", "--kafka", own_broker.address, "--topic", topic]
    start = partial(forks.start, "collect", *where, "--port", port, "--wait", "20ms", log=tmp_path / "collect.log")
    try:
        pid = start()
        eventually("the collector", lambda: listening(f"127.0.0.1:{port}"))
        rows, senders = [], []
        for number in range(6):
            own = [make_row(10_000 * number + place) for place in range(400)]
            rows += own
            senders.append(Sender(bodies_of(own, partial(encode_message, REPORT), rng), [port], number))
        kills = rng.sample(["collector", "collector", "broker"], 3)
        for victim in kills:
            time.sleep(rng.uniform(0.2, 1.0))
            if victim == "broker":
                own_broker.kill()
                time.sleep(rng.uniform(0, 2))
                own_broker.start()
            else:
                forks.kill(pid)
                pid = start()
        for sender in senders:
            sender.join()
            assert sender.acknowledged == len(sender.bodies), Counter(sender.answers)
    finally:
        forks.close()
    answers = Counter(status for sender in senders for status in sender.answers)
    assert answers[0] > 0
    assert set(read_kept(own_broker, topic)) == {as_kept(row) for row in rows}
    # And the pipeline counts each once: the topic's messages, joined, are a file of batches.
    bodies = [message.value()[PREFIX:] for message in read_topic(own_broker.address, topic)]
    with (tmp_path / "topic.avro").open("wb") as file:
        write_container(file, REPORT_BATCH, [(len(bodies), b"".join(bodies))])
    inputs = ["--collections", tmp_path / "collections.yaml", "--input", tmp_path / "topic.avro"]
    assert command.main(["aggregate", *map(str, inputs), "--output", str(tmp_path / "results")]) == 0
    assert read_tallies(tmp_path / "results") == compute_tallies(list(COLLECTIONS.values()), rows)


def test_a_broker_that_is_away_is_waited_for_by_clients(own_broker, tmp_path):
    own_broker.create_topic("reports")
    own_broker.create_topic("letters")
    where = ("--kafka", own_broker.address, "--topic", "reports", "--letters-topic", "letters")
    collector = Collector(tmp_path, *where, "--wait", "5ms")
    try:
        assert collector.post(make_message(1)) == 202
        own_broker.kill()
        statuses, until = [collector.post(make_message(2))], time.monotonic() + AWAY_SECONDS
        while len(statuses) < 2 or time.monotonic() < until:
            statuses += [collector.post(make_message(2)), collector.ask("GET", "/readyz")[0]]
            time.sleep(0.1)
        assert set(statuses) == {503}
        own_broker.start()
        eventually("the broker to be found", lambda: collector.ask("GET", "/readyz")[0] == 200)
        assert collector.post(make_message(2)) == 202
        assert collector.post(json.dumps({"cell": 3}).encode(), JSON) == 400
    finally:
        code, out, errors = collector.stop()
    assert code == 0
    assert [line.split(": ")[2].split(",")[0] for line in errors.splitlines()] == ["away", "back"]
    assert "2 accepted + 1 refused (undecodable 1)" in out
    assert set(read_kept(own_broker, "reports")) == {as_kept(make_row(number)) for number in (1, 2)}
    [letter] = read_topic(own_broker.address, "letters")
    definition, record = decode_message(letter.value())
    assert definition is DEAD_LETTER
    assert DeadLetter.from_avro(record).reason == "undecodable"


def test_a_topic_that_refuses_answers_503_and_keeps_what_it_takes(broker, tmp_path):
    broker.create_topic("narrow", **{"max.message.bytes": "3000"})
    collector = Collector(tmp_path, "--kafka", broker.address, "--topic", "narrow", "--wait", "5ms")
    try:
        rows = [make_row(number, event_time=make_row(0)["event_time"]) for number in range(1000)]
        assert collector.post(encode_avro_file(rows), FILE) == 503
        eventually("the topic to be found", lambda: collector.ask("GET", "/readyz")[0] == 200)
        assert collector.post(encode_avro_file(rows[:50]), FILE) == 202
    finally:
        code, _, errors = collector.stop()
    assert code == 0
    assert "Message size too large" in errors
    kept = read_kept(broker, "narrow")
    assert {as_kept(row) for row in rows[:50]} <= set(kept)


def test_a_topic_that_does_not_exist_ends_the_command_with_a_line(broker, tmp_path):
    with pytest.raises(AssertionError, match="Unknown topic"):
        Collector(tmp_path, "--kafka", broker.address, "--topic", "nowhere")
