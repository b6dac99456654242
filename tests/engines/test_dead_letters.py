"""Dead letters as a topic of a real broker, and their replay: nothing is sent twice, and nothing forgotten."""

import random
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from devtools.processes import eventually
from hushgram.pipelines.cli import command
from hushgram.pipelines.replay import topic as replay_topic
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.dead_messages import DeadMessage
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sinks.dead_letter_topic import WriteDeadMessages
from hushgram.transforms.sources.message_batch import MessageBatch
from tests.helpers.killed_replays import CALLS, Moment, Replays
from tests.helpers.reports import make_report_rows
from tests.helpers.streams import Topic, read_topic


@pytest.fixture
def refused(broker, topic):
    """The topic of dead letters of the test's topic."""
    return Topic(broker, f"{topic.name}-refused", 2)


def write_dead_letters(broker, topic, refused, collections, messages, times=1):
    """As the stream does: judged by the collections, what is refused goes to the topic."""
    parser = Parser(CollectionIndex.of(collections), whole=True)
    count = len(messages)
    received = np.full(count, max(row_time for _, row_time in messages))
    keys = tuple(b"key %d" % place for place in range(count))
    headers = tuple([("trace", b"%d" % place)] for place in range(count))
    values = tuple(value for value, _ in messages)
    batch = MessageBatch(f"{topic.name}[0]", np.arange(count), received, values, keys, headers)
    writer = WriteDeadMessages("--dead-letters", refused.name, {"bootstrap.servers": broker.address}, None, 60)
    writer.setup()
    for _ in range(times):
        writer.start_bundle()
        for outcome in parser.parse(batch):
            if isinstance(outcome, DeadMessage):
                writer.process(tuple(outcome))
        writer.finish_bundle()


@pytest.fixture
def letters(broker, topic, refused, collections, now):
    return make_letters(broker, topic, refused, collections, now, 10)


def make_letters(broker, topic, refused, collections, now, count, seed=3):
    """Of a mistaken definition without groups, reports that were refused; half as many damaged ones; all twice."""
    commute = collections["commute"]
    rows = [{**row, "group": "DE"} for row in make_report_rows(commute, count, seed)]
    # Each has a time of its own: equal messages at one offset are the same message.
    good = [(encode_message(REPORT, {**row, "event_time": now - place}), now) for place, row in enumerate(rows)]
    bad = [(message[:-1], now) for message, _ in good[: count // 2]]
    mistaken = replace(commute, groups=())
    write_dead_letters(broker, topic, refused, [mistaken], [*good, *bad], times=2)
    return [message for message, _ in good], [message for message, _ in bad]


def replay_arguments(folder, broker, topic, refused, *more):
    where = ["--kafka", broker.address, "--dead-letters", f"kafka:{refused.name}", "--topic", topic.name]
    chosen = [] if "--reason" in more else ["--collections", str(folder / "collections.yaml")]
    return [*where, "--group", topic.name, *chosen, *more]


def run_replay(folder, broker, topic, refused, *more):
    return command.main(["replay", *replay_arguments(folder, broker, topic, refused, *more)])


def values_in(broker, topic):
    return sorted(message.value() for message in read_topic(broker.address, topic.name))


def test_what_is_acceptable_now_is_sent_once_and_the_rest_stays(folder, broker, topic, refused, letters, capsys):
    good, bad = letters
    assert len(read_topic(broker.address, refused.name)) == 30
    assert run_replay(folder, broker, topic, refused, "--dry-run") == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [
        f"10 dead letters would be sent again to {topic.name}: unknown_group 10",
        "5 stay: undecodable 5",
        "15 were there several times",
    ]
    assert values_in(broker, topic) == []
    assert run_replay(folder, broker, topic, refused) == 0
    assert capsys.readouterr().out.splitlines() == [told[0].replace("would be sent", "sent"), *told[1:]]
    assert values_in(broker, topic) == sorted(good)
    sent = read_topic(broker.address, topic.name)[0]
    assert sent.key().startswith(b"key ")
    assert [name for name, _ in sent.headers()] == ["trace"]
    for _ in range(2):
        assert run_replay(folder, broker, topic, refused) == 0
        nothing = f"0 dead letters sent again to {topic.name}"
        assert capsys.readouterr().out.splitlines() == [nothing, "5 stay: undecodable 5"]
    assert values_in(broker, topic) == sorted(good)
    assert len(read_topic(broker.address, refused.name)) == 30 + 5
    assert run_replay(folder, broker, topic, refused, "--reason", "undecodable") == 0
    assert values_in(broker, topic) == sorted(good + bad)


def test_a_run_that_fails_has_done_whole_steps(folder, broker, topic, refused, letters, capsys, monkeypatch):
    good, _ = letters
    monkeypatch.setattr(replay_topic, "STEP", 4)
    step, steps = replay_topic.DeadLetterTopic._step, []

    def fail_in_the_third(self, sender, client, sorter, messages, done):
        steps.append(len(messages))
        if len(steps) == 3:
            sender.begin_transaction()
            sender.produce(topic.name, b"never seen")
            sender.flush(10)
            raise KeyboardInterrupt
        step(self, sender, client, sorter, messages, done)

    monkeypatch.setattr(replay_topic.DeadLetterTopic, "_step", fail_in_the_third)
    assert run_replay(folder, broker, topic, refused, "--reason", "unknown_group") == 130
    monkeypatch.setattr(replay_topic.DeadLetterTopic, "_step", step)
    assert run_replay(folder, broker, topic, refused, "--reason", "unknown_group") == 0
    assert values_in(broker, topic) == sorted(good)
    capsys.readouterr()


@pytest.fixture
def replays(tmp_path):
    running = Replays(tmp_path)
    yield running
    running.close()


def test_runs_that_are_killed_at_any_moment_send_every_letter_once(
    folder, broker, topic, refused, collections, now, replays
):
    """Before, within and after each call of the client that sends, in the first or the second step of a run."""
    good, bad = make_letters(broker, topic, refused, collections, now, 120)
    rng = random.Random(5)
    moments = [
        Moment(where, call, 1 if call == "init_transactions" else rng.randint(1, 2), rng.uniform(0, 0.02))
        for where, call in product(("before", "within", "after"), CALLS)
    ]
    rng.shuffle(moments)
    arguments = replay_arguments(folder, broker, topic, refused)
    for moment in moments:
        code, lines = replays.run(arguments, moment)
        assert (code, lines) == (-signal.SIGKILL, []) or (code == 0 and moment.where == "within")
        sent = values_in(broker, topic)
        assert len(sent) == len(set(sent)) < len(good), moment
    assert replays.run(arguments).code == 0
    assert values_in(broker, topic) == sorted(good)
    assert replays.run([*arguments, "--dry-run"]).lines == [
        f"0 dead letters would be sent again to {topic.name}",
        "60 stay: undecodable 60",
    ]
    assert replays.run(replay_arguments(folder, broker, topic, refused, "--reason", "undecodable")).code == 0
    assert values_in(broker, topic) == sorted(good + bad)


def test_of_two_runs_at_once_the_first_ends_with_a_line_and_nothing_is_sent_twice(
    folder, broker, topic, refused, collections, now, replays
):
    """Wherever the first is when the second begins, which does all that is left."""
    arguments, good, bad = replay_arguments(folder, broker, topic, refused), [], []
    what_was_done = "what was done is committed, run it again"
    line = f"hushgram: --kafka: topic {refused.name!r}: another run of the same --group has begun; {what_was_done}"
    for seed, call in enumerate(CALLS[1:]):
        more = make_letters(broker, topic, refused, collections, now - 1000 * seed, 10, seed)
        for letters, own in zip((good, bad), more, strict=True):
            letters += own
        first = replays.start(arguments, Moment("after", call), "wait")
        eventually("the first run's moment", lambda first=first: first.waits)
        assert replays.run(arguments).code == 0
        first.go_on()
        assert first.end() == (2, [line]), call
        assert values_in(broker, topic) == sorted(good)
    assert replays.run(replay_arguments(folder, broker, topic, refused, "--reason", "undecodable")).code == 0
    assert values_in(broker, topic) == sorted(good + bad)


def test_a_stream_that_writes_its_dead_letters_again_after_a_replay_does_not_have_them_sent_again(
    folder, broker, topic, refused, letters, collections, now, capsys
):
    good, bad = letters
    assert run_replay(folder, broker, topic, refused) == 0
    mistaken = replace(collections["commute"], groups=())
    write_dead_letters(broker, topic, refused, [mistaken], [(message, now) for message in [*good, *bad]])
    capsys.readouterr()
    assert run_replay(folder, broker, topic, refused) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"0 dead letters sent again to {topic.name}",
        "5 stay: undecodable 5",
        "15 were there several times",
    ]
    assert values_in(broker, topic) == sorted(good)


def test_a_broker_that_is_killed_while_dead_letters_are_written_gets_them_all(
    broker, topic, refused, caplog, monkeypatch
):
    monkeypatch.setattr("hushgram.transforms.sinks.topic_writer.QUIET_SECONDS", 0.5)
    writer = WriteDeadMessages("--dead-letters", refused.name, {"bootstrap.servers": broker.address}, None, 600)
    writer.setup()
    writer.start_bundle()
    broker.kill()
    for number in range(5):
        writer.process((b"key", b"%d" % number, [("hushgram.reason", b"undecodable")]))
    with ThreadPoolExecutor() as pool:
        future = pool.submit(writer.finish_bundle)
        eventually("the line", lambda: "waiting, for at most 10m: 5 dead letters" in caplog.text, 30)
        broker.start()
        future.result(120)
    assert values_in(broker, refused) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_message_that_the_topic_does_not_take_is_there_without_its_value(broker, topic):
    small = broker.create_topic(f"{topic.name}-small", **{"max.message.bytes": "2000"})
    writer = WriteDeadMessages("--dead-letters", small, {"bootstrap.servers": broker.address}, None, 60)
    writer.setup()
    writer.start_bundle()
    for number in range(10):
        value = bytes([number]) * (5000 if number == 3 else 900)
        writer.process((None, value, [("__connect.errors.offset", b"%d" % number)]))
    writer.finish_bundle()
    found = {dict(m.headers())["__connect.errors.offset"]: m for m in read_topic(broker.address, small)}
    assert len(found) == 10
    assert [len(found[b"%d" % number].value() or b"") for number in range(10)] == [900] * 3 + [0] + [900] * 6
    assert dict(found[b"3"].headers())["hushgram.left_out_bytes"] == b"5000"


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--topic", "reports", "--dead-letters", "kafka:a"], "--collections or --reason"),
        (["--topic", "reports", "--dead-letters", "kafka:a", "--reason", "bad"], "--reason: got 'bad', allowed: "),
        (["--topic", "a", "--dead-letters", "kafka:a", "--reason", "too_old"], "which is the topic of dead letters"),
        (["--topic", "nowhere", "--dead-letters", "kafka:a", "--reason", "too_old"], "topic 'nowhere'"),
        (["--topic", "reports", "--dead-letters", "x", "--reason", "too_old"], "allowed: kafka:TOPIC"),
    ],
)
def test_what_is_wrong_with_a_replay_is_told_in_a_line(broker, capsys, more, line):
    assert command.main(["replay", "--kafka", broker.address, *more]) == 2
    [printed] = capsys.readouterr().err.splitlines()
    assert line in printed
