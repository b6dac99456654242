"""Messages of a topic: received in order, judged by that time to the millisecond, and the same however they are cut."""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hushgram import Collection, Windows
from hushgram.schemas.avro_schemas import DEAD_LETTER, REPORT, REPORT_BATCH
from hushgram.schemas.columns import from_records
from hushgram.schemas.messages import LARGEST_MESSAGE, encode_message
from hushgram.schemas.records import DeadLetter
from hushgram.transforms.collection_index import FUTURE_ALLOWED, CollectionIndex
from hushgram.transforms.counting import ParseAndTally, tally
from hushgram.transforms.judging import accept
from hushgram.transforms.kafka_client import TopicState
from hushgram.transforms.parsing import Parser
from hushgram.transforms.sources import kafka_polls as kafka
from hushgram.transforms.sources.kafka import ReadKafka
from hushgram.transforms.sources.kafka_positions import (
    NO_EPOCH,
    Partitions,
    Position,
    Positions,
    PositionsTracker,
    TopicError,
    adapted,
    beyond,
)
from hushgram.transforms.sources.message_batch import (
    LETTER_MINUTE,
    UNKNOWN,
    MessageBatch,
    batch_by_minute,
    received_times,
)
from hushgram.transforms.uploads import SHARDS, unpack
from tests.helpers.reports import DAY, HOUR, START, make_batch_rows, make_report_rows

OLD, YOUNG = 2 * HOUR, 1000
LONG = Collection(name="long", low=0, high=1, buckets=4, epsilon=1, windows=Windows(max_age=OLD))
SHORT = Collection(
    name="short", low=0, high=1, buckets=4, epsilon=1, groups=["a"], windows=Windows(max_age=YOUNG, every=HOUR // 2)
)
INDEX = CollectionIndex.of([LONG, SHORT])
PARSER = Parser(INDEX)
LOWEST, HIGHEST = -(2**63), 2**63 - 1

stamps = st.lists(
    st.one_of(st.integers(START - OLD, START + OLD), st.sampled_from([LOWEST, HIGHEST, -1, 0])), max_size=20
)
floors = st.one_of(st.just(UNKNOWN), st.integers(0, START + OLD))


@settings(max_examples=100, deadline=None)
@given(stamps, floors, st.integers(START, START + OLD))
def test_received_times_never_run_backwards_nor_ahead_of_the_clock(stamp_list, floor, now):
    received = received_times(np.array(stamp_list, dtype=np.int64), floor, now).tolist()
    before, expected = max(0, floor), []
    for stamp in stamp_list:
        before = max(before, min(stamp, now))
        expected.append(before)
    assert received == expected
    assert all(time <= max(now, floor) for time in received)


@settings(max_examples=100, deadline=None)
@given(stamps, floors, st.lists(st.integers(0, 20), max_size=5))
def test_received_times_do_not_depend_on_how_messages_are_cut(stamp_list, floor, cuts):
    """As long as the clock is ahead of all of them: stamps ahead of it cannot give the same times twice."""
    whole = received_times(np.array(stamp_list, dtype=np.int64), floor, HIGHEST).tolist()
    parts, before = [], floor
    edges = sorted({0, len(stamp_list), *(cut for cut in cuts if cut < len(stamp_list))})
    for start, end in itertools.pairwise(edges):
        parts += received_times(np.array(stamp_list[start:end], dtype=np.int64), before, HIGHEST).tolist()
        before = parts[-1]
    assert parts == whole


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 4 * LETTER_MINUTE), max_size=20))
def test_polls_hold_every_message_once_and_none_spans_two_minutes(times):
    received = np.sort(np.array(times, dtype=np.int64))
    messages = [None if index % 5 == 0 else bytes([index]) for index in range(len(times))]
    polls = list(batch_by_minute("t[0]", np.arange(len(times)) + 7, received, messages))
    assert [message for poll in polls for message in poll.messages] == messages
    assert [offset for poll in polls for offset in poll.offsets.tolist()] == list(range(7, 7 + len(times)))
    assert [time for poll in polls for time in poll.received.tolist()] == received.tolist()
    minutes = [set((poll.received // LETTER_MINUTE).tolist()) for poll in polls]
    assert all(len(minute) == 1 for minute in minutes)
    assert len(polls) == len(set().union(*minutes))


def make_row(collection, event_time, cell=0, group=None, upload_id=None):
    revision = bytes.fromhex(collection.revision)
    return {"collection": collection.name, "revision": revision, "cell": cell, "event_time": event_time} | {
        "group": group,
        "id": upload_id,
    }


def make_poll(rows, received, definition=REPORT):
    messages = tuple(row if isinstance(row, bytes | None) else encode_message(definition, row) for row in rows)
    times = np.broadcast_to(np.array(received, dtype=np.int64), len(messages))
    return MessageBatch("t[0]", np.arange(100, 100 + len(messages)), times, messages)


def count_outcomes(parser, reads):
    """(accepted, refused by reason)"""
    accepted, refused = 0, Counter()
    for batch in reads:
        for outcome in parser.parse(batch):
            if isinstance(outcome, DeadLetter):
                refused[outcome.reason] += outcome.reports
            else:
                accepted += outcome.reports
    return accepted, dict(refused)


@pytest.mark.parametrize("most", [10**9, 0], ids=["at the end of the bundle", "at once"])
def test_uploads_with_ids_travel_together_by_shard_and_minute_of_receipt(monkeypatch, most):
    monkeypatch.setattr("hushgram.transforms.counting.MAX_BUFFERED_CELLS", most)
    rows = make_report_rows(LONG, 400, 3, hours=1, ids=True)
    received_first = START + HOUR
    parts = [
        (rows[:100], received_first),
        (rows[100:200], received_first + 1),
        (rows[200:], received_first + LETTER_MINUTE),
    ]
    stage = ParseAndTally(PARSER)
    stage.start_bundle()
    during = [
        output.value.value
        for rows_of_part, received in parts
        for output in stage.process(make_poll(rows_of_part, received))
    ]
    after = [output.value.value for output in stage.finish_bundle()]
    assert not (during if most else after)
    pieces = [(shard, *unpack(piece)) for shard, piece in during + after]
    assert sum(uploads.reports for _, uploads, _ in pieces) == len(rows)
    minutes = Counter((shard, received // LETTER_MINUTE) for shard, _, received in pieces)
    assert len(minutes) == 2 * SHARDS
    assert set(minutes.values()) <= ({1} if most else {1, 2})
    by_minute = Counter()
    for _, uploads, received in pieces:
        by_minute[received // LETTER_MINUTE] += uploads.reports
    assert by_minute == {received_first // LETTER_MINUTE: 200, received_first // LETTER_MINUTE + 1: 200}


EDGES = [
    *(-OLD - 1, -OLD, -OLD + 1, -YOUNG - 1, -YOUNG, -YOUNG + 1),
    *(FUTURE_ALLOWED - 1, FUTURE_ALLOWED, FUTURE_ALLOWED + 1, 0),
]
moments = st.one_of(
    st.sampled_from(EDGES).map(lambda edge: ("near", edge)),
    st.sampled_from([LOWEST, HIGHEST, 0]).map(lambda t: ("at", t)),
)


def find_reason(collection, event, received):
    """In Python's numbers, which do not overflow."""
    if event > received + 300_000:
        return "from_the_future"
    return "too_old" if received - event > collection.windows.max_age else None


@settings(max_examples=80, deadline=None)
@example([(0, ("at", LOWEST), 0), (1, ("at", HIGHEST), START)])
@given(
    st.lists(
        st.tuples(st.integers(0, 1), moments, st.sampled_from([0, 1, START, START + 12_345])), min_size=1, max_size=12
    ),
)
def test_age_is_judged_to_the_millisecond_by_each_reports_own_receipt(draws):
    draws = sorted(draws, key=lambda draw: draw[2])
    rows, expected = [], Counter()
    for index, (kind, time), received in draws:
        event = received + time if kind == "near" else time
        rows.append(make_row(INDEX.collections[index], event))
        expected[find_reason(INDEX.collections[index], event, received)] += 1
    accepted, refused = count_outcomes(PARSER, [make_poll(rows, [received for *_, received in draws])])
    assert accepted == expected.pop(None, 0)
    assert refused == dict(expected)
    assert accepted + sum(refused.values()) == len(draws)


def test_no_report_of_a_batch_run_is_too_old():
    columns = from_records(REPORT, [make_row(SHORT, START - 5 * HOUR)])
    assert accept(INDEX, columns, START)[0].reports == 1
    assert accept(INDEX, columns, START, aged=True)[0].reports == 0


def test_a_parser_without_collections_refuses_all_and_does_not_raise():
    assert count_outcomes(Parser(CollectionIndex.of([])), [make_poll([make_row(LONG, START)], START)]) == (
        0,
        {"unknown_collection": 1},
    )


def make_messages_of_every_kind():
    """200 messages, good and bad, with the number of reports in each."""
    rng = np.random.default_rng(5)
    singles = make_report_rows(LONG, 60, 1, hours=4) + make_report_rows(SHORT, 40, 2, hours=1)
    messages = [encode_message(REPORT, row) for row in singles]
    messages += [
        encode_message(REPORT_BATCH, row)
        for row in make_batch_rows(LONG, make_report_rows(LONG, 60, 3, hours=4), size=3)
    ]
    messages += [encode_message(REPORT, {**row, "group": "nobody"}) for row in singles[:10]]
    messages += [encode_message(REPORT, {**row, "cell": 10**6}) for row in singles[:10]]
    messages += [encode_message(REPORT, {**row, "event_time": HIGHEST}) for row in singles[:10]]
    messages += [encode_message(REPORT, {**row, "event_time": LOWEST}) for row in singles[:10]]
    messages += [message[:-3] for message in messages[:5]]
    letter = DeadLetter("duplicate", 1, "", "", None, 0)
    messages += [None, b"", b"nothing of ours", encode_message(DEAD_LETTER, letter.to_avro())]
    messages += [messages[0] + bytes(LARGEST_MESSAGE)]
    order = rng.permutation(len(messages))
    return [messages[index] for index in order]


def test_a_replay_with_other_cuts_puts_every_report_in_the_same_place():
    messages = make_messages_of_every_kind()
    rng = np.random.default_rng(11)
    times = received_times(START + np.sort(rng.integers(0, 4 * HOUR, len(messages))), UNKNOWN, START + 9 * HOUR)

    def count_with_cuts(cuts):
        totals, refused = {}, Counter()
        for start, end in zip([0, *cuts], [*cuts, len(messages)], strict=True):
            for poll in batch_by_minute("t[0]", np.arange(start, end), times[start:end], messages[start:end]):
                for outcome in PARSER.parse(poll):
                    if isinstance(outcome, DeadLetter):
                        # A letter may stand for several reports; their number and the minute are guaranteed.
                        minute = outcome.received_at // LETTER_MINUTE
                        refused[outcome.reason, minute] += 1 if outcome.reports is None else outcome.reports
                        assert poll.offsets[0] <= outcome.position <= poll.offsets[-1]
                        assert minute == times[outcome.position] // LETTER_MINUTE
                    else:
                        for slice_, tallies in tally(INDEX, outcome):
                            [(_, counts)] = tallies.parts.values()
                            totals[slice_] = totals.get(slice_, 0) + counts
        return {key: counts.tolist() for key, counts in totals.items()}, refused

    whole = count_with_cuts([])
    assert {reason for reason, _ in whole[1]} >= {"too_old", "unknown_group", "undecodable", "too_large"}
    for cuts in (1, 5, 30):
        assert count_with_cuts(sorted(rng.integers(0, len(messages), cuts).tolist())) == whole
    assert count_with_cuts(range(1, len(messages))) == whole


def test_letters_carry_offset_receipt_and_payload():
    rows = [
        make_row(LONG, START),
        b"nothing of ours",
        None,
        make_row(LONG, START - OLD),
        make_row(LONG, START - OLD - 9),
    ]
    received = START + np.arange(5)
    letters = [letter for letter in PARSER.parse(make_poll(rows, received)) if isinstance(letter, DeadLetter)]
    letters_by_position = {
        letter.position: (letter.reason, letter.reports, letter.received_at - START, letter.payload)
        for letter in letters
    }
    assert letters_by_position == {
        101: ("undecodable", None, 1, b"nothing of ours"),
        102: ("undecodable", None, 2, b""),
        103: ("too_old", 2, 3, b""),
    }
    assert {letter.source for letter in letters} == {"t[0]"}
    assert PARSER.received(make_poll(rows, received)) == START + 4


def test_a_letter_about_a_time_tells_the_receipt_that_it_was_judged_by():
    rows = [make_row(LONG, START - OLD - 9), make_row(LONG, START + DAY)]
    letters = {letter.reason: letter.detail for letter in PARSER.parse(make_poll(rows, [START, START + 1000]))}
    assert letters == {
        "too_old": "event time 2025-12-31 21:59:59 UTC of 'long', received at 2026-01-01 00:00:00 UTC",
        "from_the_future": "event time 2026-01-02 00:00:00 UTC of 'long', received at 2026-01-01 00:00:01 UTC",
    }
    [refusal] = accept(INDEX, from_records(REPORT, [make_row(LONG, START + DAY)]), START)[1]
    assert refusal.detail.endswith(", received at 2026-01-01 00:00:00 UTC")


def make_message(partition, offset, stamp, value=b"x", error=None, epoch=None):
    answers = {"partition": partition, "offset": offset, "value": value, "error": error, "timestamp": (1, stamp)}
    answers["leader_epoch"] = epoch
    return SimpleNamespace(**{name: lambda answer=answer: answer for name, answer in answers.items()})


def make_error(name, fatal=False):
    return SimpleNamespace(name=lambda: name, fatal=lambda: fatal, str=lambda: f"in words, {name}")


def make_positions(topic_id="a", **partitions):
    return Positions(topic_id, {int(name[1:]): position for name, position in partitions.items()})


def read_messages(polled, start_positions):
    return list(kafka.received("t", kafka.sorted_out("t", polled), start_positions))


def test_partitions_keep_their_own_times_and_offsets(monkeypatch):
    monkeypatch.setattr(kafka, "now", lambda: 500_000)
    messages = [
        make_message(0, 5, 100, epoch=1),
        make_message(1, 9, 70_000),
        make_message(0, 6, 90, None, epoch=1),
        make_message(1, 12, 10**9),
        make_message(0, 9, 400, epoch=2),
    ]
    results = read_messages(messages, make_positions(p0=Position(5, 200), p1=Position(9)))
    by_partition = {partition: (position, polls) for partition, position, polls in results}
    assert {partition: polls[0] for partition, polls in by_partition.items()} == {
        0: Position(10, 400, 2),
        1: Position(13, 500_000, NO_EPOCH),
    }
    [poll] = by_partition[0][1]
    assert (poll.source, poll.offsets.tolist(), poll.received.tolist()) == ("t[0]", [5, 6, 9], [200, 200, 400])
    assert poll.messages == (b"x", None, b"x")
    assert [poll.received.tolist() for poll in by_partition[1][1]] == [[70_000], [500_000]]


def test_the_end_of_a_partition_is_a_position_and_never_one_before_its_last_message():
    end = make_error("_PARTITION_EOF")
    messages = [make_message(0, 5, 100, epoch=3), make_message(0, 7, 0, error=end), make_message(1, 4, 0, error=end)]
    assert [
        (partition, position.offset, position.epoch)
        for partition, position, _ in read_messages(messages, make_positions(p0=Position(5), p1=Position(4)))
    ] == [
        (0, 6, 3),
        (0, 7, 3),
    ]


def test_transient_kafka_errors_are_passed_over_and_others_end_the_call():
    passing = [
        make_message(0, 1, 5),
        make_message(0, 0, 0, error=make_error("_ALL_BROKERS_DOWN")),
        make_message(0, 2, 6),
    ]
    [(_, position, [poll])] = read_messages(passing, make_positions(p0=Position(0)))
    assert (position.offset, poll.offsets.tolist()) == (3, [1, 2])
    for error in (make_error("TOPIC_AUTHORIZATION_FAILED"), make_error("_ALL_BROKERS_DOWN", fatal=True)):
        with pytest.raises(RuntimeError, match=r"t\[0\]"):
            kafka.sorted_out("t", [make_message(0, 0, 0, error=error)])
    deleted = [make_message(0, 1, 5), make_message(1, 0, 0, error=make_error("_AUTO_OFFSET_RESET"))]
    assert kafka.sorted_out("t", deleted).missing == [1]
    assert kafka.sorted_out("t", passing).troubles == {(0, "_ALL_BROKERS_DOWN"): "in words, _ALL_BROKERS_DOWN"}
    away = [make_message(1, 0, 0, error=make_error("UNKNOWN_TOPIC_OR_PART"))]
    assert list(kafka.sorted_out("t", away).troubles) == [(1, "UNKNOWN_TOPIC_OR_PART")]


def test_a_persistent_kafka_error_is_logged_once_a_minute(caplog):
    source = kafka.ReadPolls({}, None, 0)
    source.setup()
    for _ in range(100):
        source._log_troubles("t", {(0, "_TRANSPORT"): "refused", (1, "_TRANSPORT"): "refused"})
    assert len(caplog.records) == 2


def test_a_tracker_hands_on_exactly_the_claimed_positions():
    first = Partitions().initial_restriction(("t", "a", (0, 1), ((1, 20), (0, 10))))
    tracker = PositionsTracker(first)
    assert tracker.position() == ("a", ((0, 10, UNKNOWN, NO_EPOCH), (1, 20, UNKNOWN, NO_EPOCH)))
    assert tracker.try_split(0.5) is None
    with pytest.raises(ValueError, match="without an end"):
        tracker.check_done()
    later = Positions.of(first).moved(1, Position(25, 77, 3)).restriction()
    assert later == ("a", ((0, 10, UNKNOWN, NO_EPOCH), (1, 25, 77, 3)))
    assert tracker.try_claim(later)
    assert tracker.try_split(0) == ((), later)
    assert not tracker.try_claim(first)
    assert tracker.position() == later
    assert tracker.try_split(0) is None
    tracker.check_done()
    assert not tracker.is_bounded()
    assert Partitions().truncate(("t", "a", (0, 1), ()), first) is None


# Positions when the topic changes ----------------------------------------------------------------------------------

POSITIONS = make_positions(p1=Position(200, 5_000, 4), p3=Position(7, 9_000, 0))
SHARE = (1, 2)
"""Of partitions by twos, the odd ones."""


def test_a_topic_that_has_not_changed_leaves_positions_as_they_are():
    assert adapted("t", SHARE, POSITIONS, TopicState("a", 4)) == (POSITIONS, [])
    assert adapted("t", SHARE, POSITIONS, TopicState("a", 5)) == (POSITIONS, [])


def test_a_topic_that_was_created_again_is_read_from_its_beginning_and_the_gap_is_reported():
    new_positions, gaps = adapted("t", SHARE, POSITIONS, TopicState("b", 4))
    assert new_positions == make_positions("b", p1=Position(0, 5_000), p3=Position(0, 9_000))
    assert [(gap.source, gap.position, gap.received) for gap in gaps] == [("t[1]", 200, 5_000), ("t[3]", 7, 9_000)]
    for gap in gaps:
        [letter] = PARSER.parse(gap)
        assert (letter.reason, letter.reports, letter.position) == ("deleted_unread", None, gap.position)
        assert "created again" in letter.detail


def test_new_partitions_fall_to_shares_and_are_read_from_their_beginning():
    new_positions, gaps = adapted("t", SHARE, POSITIONS, TopicState("a", 8))
    assert (new_positions, gaps) == (
        make_positions(**to_keywords(POSITIONS), p5=Position(0, 5_000), p7=Position(0, 5_000)),
        [],
    )
    new_positions, gaps = adapted("t", SHARE, POSITIONS, TopicState("b", 6))
    assert new_positions.offsets == {1: 0, 3: 0, 5: 0}
    assert len(gaps) == 2


def to_keywords(stored):
    return {f"p{partition}": position for partition, position in stored.partitions.items()}


@given(st.integers(1, 6), st.integers(0, 20), st.booleans())
def test_every_partition_of_a_topic_that_grows_has_one_reader(first, added, together):
    elements = ReadKafka("t", dict.fromkeys(range(first), 0), {}, None, 0, together, "a").elements()
    larger_topic = TopicState("a", first + added)
    positions_of_readers = [
        adapted("t", element[2], Positions.of(Partitions().initial_restriction(element)), larger_topic)[0]
        for element in elements
    ]
    assert sorted(
        partition for reader_positions in positions_of_readers for partition in reader_positions.partitions
    ) == list(range(first + added))


def test_a_topic_that_was_created_again_with_fewer_partitions_ends_the_stream():
    with pytest.raises(TopicError, match=r"with 2 partitions, and partition 3 is read.*--generation"):
        adapted("t", SHARE, POSITIONS, TopicState("b", 2))


def test_a_topic_without_an_id_counts_as_unchanged_and_its_id_is_kept_once_known():
    without_id = make_positions("", p1=Position(200, 5_000, 4))
    assert adapted("t", SHARE, without_id, TopicState("", 2)) == (without_id, [])
    assert adapted("t", SHARE, without_id, TopicState("a", 2)) == (make_positions("a", p1=Position(200, 5_000, 4)), [])
    assert adapted("t", SHARE, POSITIONS, TopicState("", 4)) == (POSITIONS, [])


def test_messages_deleted_unread_are_a_gap_and_lost_messages_end_the_stream():
    start = Position(200, 5_000, 4)
    position, gap = beyond("t", 1, start, 350, 900)
    assert position == Position(350, 5_000, 4)
    assert (gap.source, gap.position, gap.received) == ("t[1]", 200, 5_000)
    assert "offsets 200 to 349" in gap.detail
    assert beyond("t", 1, Position(0), 1, 1)[1].received > 0
    for low, high in ((0, 150), (0, 900), (200, 900)):
        with pytest.raises(TopicError, match=r"t\[1\]: .*lost messages.*--generation"):
            beyond("t", 1, start, low, high)
