"""What the collector answers to each request, and when: acknowledged means kept."""

import asyncio
import gzip
import json
import threading

import pytest

from hushgram.pipelines.collect import intake, tokens
from hushgram.pipelines.collect.answers import verdict
from hushgram.pipelines.collect.app import AccessPolicy
from hushgram.pipelines.collect.bodies import Refused
from hushgram.pipelines.collect.limits import Limits
from hushgram.pipelines.collect.tokens import Tokens
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from tests.helpers.collectors import (
    COLLECTIONS,
    FILE,
    JSON,
    MESSAGE,
    InProcess,
    as_json,
    as_kept,
    make_message,
    make_row,
)
from tests.helpers.reports import encode_avro_file


@pytest.fixture
def collector():
    return InProcess()


def test_each_kind_of_body_is_kept_with_times_cut_and_ids(collector):
    rows = [make_row(number, name) for number, name in enumerate(["commute", "age"] * 6)]
    rows[3] = {**rows[3], "id": None}

    async def work():
        answers = [
            await collector.post(encode_message(REPORT, rows[0])),
            await collector.post(encode_avro_file(rows[1:5]), FILE),
            await collector.post(json.dumps(as_json(rows[5])).encode(), JSON),
            await collector.post(json.dumps([as_json(row) for row in rows[6:8]]).encode(), f"{JSON}; charset=utf-8"),
            await collector.post(gzip.compress(encode_message(REPORT, rows[8])), content_encoding="gzip"),
            await collector.post(gzip.compress(encode_avro_file(rows[9:11])), FILE, content_encoding="GZIP"),
            await collector.post([bytes([octet]) for octet in encode_message(REPORT, rows[11])]),  # chunked
        ]
        return [(status, answer["accepted"], answer["refused"]) for status, answer in answers]

    numbers = [1, 4, 1, 2, 1, 2, 1]
    assert collector.run(work) == [(202, number, 0) for number in numbers]
    assert collector.kept == {as_kept(row): 1 for row in rows}
    assert collector.counts.accepted == {"commute": 6, "age": 6}
    assert collector.app.room.taken == 0


def test_an_answer_comes_after_the_sink_has_kept_what_it_is_for(collector):
    allow = threading.Event()
    collector.sink.hold = allow.wait

    async def work():
        asked = [asyncio.ensure_future(collector.post(make_message(number))) for number in range(5)]
        asked.append(asyncio.ensure_future(collector.post(encode_avro_file([make_row(9)]), FILE)))
        done, _ = await asyncio.wait(asked, timeout=0.3)
        allow.set()
        return len(done), [status for status, _ in await asyncio.gather(*asked)]

    assert collector.run(work) == (0, [202] * 6)


def test_all_that_waits_is_kept_at_once(collector):
    collector = InProcess(Limits(wait_seconds=0.5))

    async def work():
        await asyncio.gather(
            *(collector.post(make_message(number, event_time=make_row(0)["event_time"])) for number in range(50))
        )

    collector.run(work)
    [batch] = collector.sink.batches
    assert len(batch["ids"]) == 16 * 50


def test_enough_reports_wait_for_no_more():
    collector = InProcess(Limits(wait_seconds=60, reports=20))

    async def work():
        posts = [asyncio.ensure_future(collector.post(make_message(number))) for number in range(20)]
        return [status for status, _ in await asyncio.wait_for(asyncio.gather(*posts), 30)]

    assert collector.run(work) == [202] * 20


def test_a_body_with_good_and_bad_reports_is_kept_in_part_and_says_which(collector):
    rows = [make_row(1), make_row(2, cell=10**6), make_row(3), make_row(4, group="XX"), make_row(5, cell=-1)]

    async def work():
        return await collector.post(encode_avro_file(rows), FILE), await collector.post(
            json.dumps([as_json(row) for row in rows]).encode(), JSON
        )

    for status, answer in collector.run(work):
        assert (status, answer["accepted"], answer["refused"]) == (202, 2, 3)
        shown = {(part["reason"], part["reports"], part["place"]) for part in answer["refusals"]}
        assert shown == {("cell_out_of_range", 2, 1), ("unknown_group", 1, 3)}
    assert set(collector.kept) == {as_kept(rows[0]), as_kept(rows[2])}
    counts = collector.counts
    assert counts.read == counts.accepted.total() + counts.refused.total() == 10
    assert counts.summary == (
        "10 reports read = 4 accepted + 6 refused (cell_out_of_range 4, unknown_group 2) + 0 given back"
    )


def test_bad_reports_are_answered_400_and_become_letters_without_what_they_held(collector):
    async def work():
        answers = [
            await collector.post(make_message(1, collection="a person's name")),
            await collector.post(make_message(2, cell=123_456)),
            await collector.post(make_message(3)[:-1]),
            await collector.post(b"whatever"),
            await collector.post(b'{"name": "a person"}', JSON),
            await collector.post(b"no file", FILE),
        ]
        return [(status, answer["refusals"][0]["reason"]) for status, answer in answers]

    reasons = ["unknown_collection", "cell_out_of_range", *["undecodable"] * 4]
    assert collector.run(work) == [(400, reason) for reason in reasons]
    letters = {letter.reason: letter for letter in collector.sink.letters}
    assert {reason: letter.reports for reason, letter in letters.items()} == {
        "unknown_collection": 1,
        "cell_out_of_range": 1,
        "undecodable": 4,
    }
    assert letters["cell_out_of_range"].detail == "of 'commute'"
    for letter in letters.values():
        assert letter.payload == b""
        assert letter.received_at % 3_600_000 == 0
        assert "person" not in str(letter)
        assert "123" not in letter.detail


@pytest.mark.parametrize(
    ("kind", "headers", "status"),
    [
        ("text/plain", {}, 415),
        ("", {}, 415),
        (JSON, {"content_encoding": "br"}, 415),
        (JSON, {"content_encoding": "gzip, gzip"}, 415),
        (JSON, {"content_length": str(10**12)}, 413),
    ],
)
def test_kinds_and_sizes_that_are_refused_before_they_are_read(collector, kind, headers, status):
    async def work():
        return await collector.post([], kind, **headers)  # a body that would fail to be read

    found, answer = collector.run(work)
    assert found == status
    assert "allowed" in answer["error"] or "bytes" in answer["error"]


def test_bodies_beyond_the_limit_are_refused_however_they_come():
    collector = InProcess(Limits(largest_body=2048, largest_queue=1 << 20, wait_seconds=0))
    rows = [make_row(number) for number in range(1000)]

    async def work():
        return [
            (await collector.post(part, kind, **headers))[0]
            for part, kind, headers in (
                (bytes(2049), FILE, {}),
                ([bytes(1000)] * 3, FILE, {}),  # of unknown length
                (gzip.compress(bytes(100_000)), FILE, {"content_encoding": "gzip"}),
                (encode_avro_file([rows[0]] * 1000), FILE, {}),
            )
        ]

    assert collector.run(work) == [413] * 4
    assert collector.app.room.taken == 0


def test_a_full_queue_answers_429_and_has_room_again_afterwards():
    collector = InProcess(Limits(largest_body=1024, largest_queue=2000, wait_seconds=0))
    allow = threading.Event()
    collector.sink.hold = allow.wait

    async def work():
        first = asyncio.ensure_future(collector.post(make_message(1) + bytes(950), "application/vnd.hushgram.report"))
        kept = [asyncio.ensure_future(collector.post(make_message(number))) for number in range(2, 12)]
        await asyncio.sleep(0.1)
        status, headers, _ = await collector.ask("POST", "/v1/reports", bytes(1024))
        streamed, _ = await collector.post([bytes(500), bytes(500)])
        allow.set()
        await asyncio.gather(first, *kept)
        return status, headers["retry-after"], streamed, (await collector.post(make_message(20)))[0]

    assert collector.run(work) == (429, "5", 429, 202)
    assert collector.app.room.taken == 0


def test_a_file_that_is_small_and_holds_much_needs_room_for_what_it_holds():
    collector = InProcess(Limits(largest_body=1 << 20, largest_queue=1 << 20, wait_seconds=0))
    body = encode_avro_file([make_row(1)] * 20_000)
    assert len(body) < 100_000
    assert collector.once("POST", "/v1/reports", body, FILE)[0] == 413  # there never is as much
    assert collector.sink.batches == []


def test_a_file_that_must_share_the_queue_is_asked_for_again():
    collector = InProcess(Limits(largest_body=1 << 20, largest_queue=1 << 20, wait_seconds=0))
    body, allow = encode_avro_file([make_row(1)] * 6000), threading.Event()
    collector.sink.hold = lambda: allow.wait(30)

    async def work():
        first = asyncio.ensure_future(collector.post(body, FILE))
        while not collector.counts.waiting:
            await asyncio.sleep(0.01)
        second = (await collector.post(body, FILE))[0]
        allow.set()
        return (await first)[0], second, (await collector.post(body, FILE))[0]

    assert collector.run(work) == (202, 429, 202)


def test_answers_are_short_whatever_they_quote(collector):
    long = "\x7f" * 1_000_000

    async def work():
        bodies = [
            (make_message(1, collection=long), MESSAGE),
            (make_message(2, group=long), MESSAGE),
            (encode_avro_file([make_row(3, collection=long)]), FILE),
            (encode_avro_file([make_row(4)]).replace(b"snappy", b"\x7f" * 6).replace(b"deflate", b"\x7f" * 7), FILE),
            (json.dumps(as_json(make_row(5, collection=long[:100_000]))).encode(), JSON),
        ]
        return [await collector.ask("POST", "/v1/reports", body, kind) for body, kind in bodies]

    for status, _, answer in collector.run(work):
        assert status == 400
        assert len(answer) < 2000
    refused = Refused("undecodable", None, "x" * 10**6)  # a detail of any origin
    assert len(verdict(0, [refused]).body) < 2000


def test_a_sink_that_is_away_answers_503_until_it_is_back(collector, monkeypatch):
    monkeypatch.setattr(intake, "PROBE_SECONDS", 0.05)

    async def work():
        collector.sink.away = "disk full"
        body = encode_avro_file([make_row(2), make_row(3)])
        first = await asyncio.gather(
            collector.ask("POST", "/v1/reports", make_message(1)), collector.ask("POST", "/v1/reports", body, FILE)
        )
        at_once = await collector.ask("POST", "/v1/reports", make_message(4))
        ready = await collector.ask("GET", "/readyz")
        collector.sink.away = None
        while collector.intake.away is not None:
            await asyncio.sleep(0.01)
        again = await collector.post(make_message(1))
        return [*first, at_once, ready], again[0], (await collector.ask("GET", "/readyz"))[0]

    away, again, ready = collector.run(work)
    assert {(status, headers["retry-after"]) for status, headers, _ in away} == {(503, "5")}
    assert b"disk" not in b"".join(body for _, _, body in away)  # the operator's own, and in no answer
    assert (again, ready) == (202, 200)
    assert collector.counts.given_back == 3
    assert collector.counts.read == collector.counts.accepted.total() + collector.counts.given_back == 4


def test_letters_wait_for_a_sink_that_is_away(collector, monkeypatch):
    monkeypatch.setattr(intake, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(intake, "LETTER_SECONDS", 0.02)

    async def work():
        collector.sink.away = "gone"
        await collector.post(b"junk")
        while collector.intake.away is None:
            await asyncio.sleep(0.01)
        collector.sink.away = None
        while not collector.sink.letters:
            await asyncio.sleep(0.01)

    collector.run(work)
    assert [(letter.reason, letter.reports) for letter in collector.sink.letters] == [("undecodable", 1)]


def test_an_error_of_ours_ends_neither_the_wait_for_the_sink_nor_the_letters(collector, monkeypatch, capsys):
    monkeypatch.setattr(intake, "PROBE_SECONDS", 0.02)
    monkeypatch.setattr(intake, "LETTER_SECONDS", 0.02)
    failures = {"probe": 2, "write_dead_letters": 2}

    def fail_at_first(name):
        use = getattr(collector.sink, name)

        def used(*arguments):
            failures[name] -= 1
            if failures[name] >= 0:
                raise ZeroDivisionError("with a person's data")
            use(*arguments)

        return used

    async def work():
        collector.sink.away = "gone"
        first = (await collector.post(make_message(1)))[0]
        for name in failures:
            monkeypatch.setattr(collector.sink, name, fail_at_first(name))
        collector.sink.away = None
        while collector.intake.away is not None:
            await asyncio.sleep(0.01)
        await collector.post(b"junk")
        while not collector.sink.letters:
            await asyncio.sleep(0.01)
        return first, (await collector.post(make_message(1)))[0]

    assert collector.run(lambda: asyncio.wait_for(work(), 30)) == (503, 202)
    assert [(letter.reason, letter.reports) for letter in collector.sink.letters] == [("undecodable", 1)]
    said = capsys.readouterr().err
    assert said.count("ZeroDivisionError") == 4
    assert "person" not in said


def test_letters_that_are_about_to_be_written_when_the_collector_stops_are_written(collector, monkeypatch):
    monkeypatch.setattr(intake, "LETTER_SECONDS", 0.02)
    allow = threading.Event()

    async def work():
        collector.intake._keeper.submit(allow.wait)
        await collector.post(b"junk")
        while collector.intake._letters:
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.1, allow.set)

    collector.run(work)
    assert [(letter.reason, letter.reports) for letter in collector.sink.letters] == [("undecodable", 1)]


def test_an_error_of_ours_is_no_acknowledgement_and_no_outage(collector, monkeypatch, capsys):
    def fail(*_):
        raise ZeroDivisionError("with a person's data")

    async def work():
        with monkeypatch.context() as patch:
            patch.setattr(intake, "pack", fail)
            first = (await collector.post(make_message(1)))[0]
        return first, (await collector.post(make_message(1)))[0]

    assert collector.run(work) == (503, 202)
    assert capsys.readouterr().err == "hushgram: keeping failed: ZeroDivisionError\n"


def test_a_log_that_nobody_reads_stops_nothing(collector, monkeypatch):
    monkeypatch.setattr(intake, "PROBE_SECONDS", 0.05)

    def fail(*_, **__):
        raise BrokenPipeError

    async def work():
        monkeypatch.setattr("builtins.print", fail)
        collector.sink.away = "gone"
        first = (await collector.post(make_message(1)))[0]
        collector.sink.away = None
        while collector.intake.away is not None:
            await asyncio.sleep(0.01)
        return first, (await collector.post(make_message(1)))[0]

    assert collector.run(work) == (503, 202)


def test_a_collector_that_can_keep_nothing_any_more_is_not_healthy(collector):
    async def work():
        collector.intake._keeping.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        status = (await collector.ask("GET", "/healthz"))[0]
        collector.intake._keeping = None
        return status

    assert collector.run(work) == 500


def test_a_body_that_takes_too_long_is_answered_408(collector):
    collector = InProcess(Limits(body_seconds=0.1))

    async def work():
        async def receive():
            await asyncio.sleep(60)

        sent = []

        async def send(event):
            sent.append(event)

        headers = [(b"content-type", b"application/json"), (b"content-length", b"10")]
        scope = {"type": "http", "method": "POST", "path": "/v1/reports", "headers": headers}
        await collector.app(scope, receive, send)
        return sent[0]["status"]

    assert collector.run(work) == 408
    assert collector.app.room.taken == 0


def test_a_client_that_leaves_in_the_middle_takes_no_room(collector):
    async def work():
        events = [{"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}]

        async def receive():
            return events.pop(0)

        headers = [(b"content-type", b"application/json"), (b"content-length", b"10")]
        scope = {"type": "http", "method": "POST", "path": "/v1/reports", "headers": headers}
        await collector.app(scope, receive, None)

    collector.run(work)
    assert collector.app.room.taken == 0


def test_manifests_are_handed_out_with_a_tag():
    one = InProcess(yaml="collections: {c: {domain: {low: 0, high: 1}, epsilon: 1}}")

    async def work():
        status, headers, body = await one.ask("GET", "/v1/manifest")
        tag = headers["etag"]
        known = await one.ask("GET", "/v1/manifest", if_none_match=f'"x", {tag}')
        other = await one.ask("GET", "/v1/manifest/c", if_none_match='"x"')
        return status, json.loads(body), known[0], known[2], known[1]["etag"] == tag, other[0]

    status, manifest, *rest = one.run(work)
    assert (status, manifest["collection"], rest) == (200, "c", [304, b"", True, 200])
    assert InProcess().once("GET", "/v1/manifest")[0] == 404
    status, _, body = InProcess().once("GET", "/v1/manifest/age")
    assert (status, json.loads(body)) == (200, json.loads(json.dumps(COLLECTIONS["age"].manifest())))
    assert json.loads(InProcess().once("GET", "/v1/manifest/nobody")[2])["collections"] == ["commute", "age"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        *(("GET", "/healthz", 200), ("GET", "/readyz", 200), ("GET", "/metrics", 200), ("GET", "/", 404)),
        *(("GET", "/v1/reports", 405), ("DELETE", "/v1/manifest", 405), ("GET", "/v1/reports/", 404)),
    ],
)
def test_other_paths_and_methods(collector, method, path, status):
    assert collector.once(method, path)[0] == status


def test_metrics_are_counts_and_add_up(collector):
    async def work():
        await collector.post(encode_avro_file([make_row(1), make_row(2, cell=-1)]), FILE)
        return (await collector.ask("GET", "/metrics"))[2].decode()

    lines = dict(line.rsplit(" ", 1) for line in collector.run(work).splitlines() if line[0] != "#")
    assert lines["hushgram_collect_reports_read_total"] == "2.0"
    assert lines['hushgram_collect_reports_accepted_total{collection="commute"}'] == "1.0"
    assert lines['hushgram_collect_reports_refused_total{reason="cell_out_of_range"}'] == "1.0"
    assert lines['hushgram_collect_answers_total{status="202"}'] == "1.0"


def test_pages_of_allowed_origins_only_may_see_answers():
    collector = InProcess(access=AccessPolicy(None, frozenset({"https://app.example"})))

    async def work():
        found = {}
        for origin in ("https://app.example", "https://evil.example", None):
            headers = {} if origin is None else {"origin": origin}
            for method in ("OPTIONS", "POST"):
                status, answered, _ = await collector.ask(
                    "POST" if method == "POST" else method, "/v1/reports", **headers
                )
                found[origin, method] = status, answered.get("access-control-allow-origin")
        return found

    assert collector.run(work) == {
        ("https://app.example", "OPTIONS"): (204, "https://app.example"),
        ("https://app.example", "POST"): (400, "https://app.example"),
        ("https://evil.example", "OPTIONS"): (204, None),
        ("https://evil.example", "POST"): (400, None),
        (None, "OPTIONS"): (204, None),
        (None, "POST"): (400, None),
    }
    everyone = InProcess(access=AccessPolicy(None, frozenset({"*"})))
    assert (
        everyone.once("GET", "/v1/manifest/age", origin="https://a.b")[1]["access-control-allow-origin"]
        == "https://a.b"
    )


def test_caches_keep_answers_to_pages_and_to_others_apart():
    collector = InProcess(access=AccessPolicy(None, frozenset({"https://app.example"})))

    async def work():
        origins = ({"origin": "https://app.example"}, {"origin": "https://evil.example"}, {})
        return [(await collector.ask("GET", "/v1/manifest/age", **origin))[1] for origin in origins]

    answers = collector.run(work)
    assert [headers["vary"] for headers in answers] == ["Origin"] * 3
    assert [headers.get("access-control-expose-headers") for headers in answers] == ["retry-after, etag", None, None]
    assert "vary" not in InProcess().once("GET", "/v1/manifest/age")[1]


def test_bearers_of_a_token_may_send_and_tokens_can_be_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "REREAD_SECONDS", 0.0)
    file = tmp_path / "tokens"
    file.write_text("the-first-of-all-tokens\nanother-good-one-here\n")
    collector = InProcess(access=AccessPolicy(Tokens(str(file))))

    async def work():
        async def ask(authorization):
            headers = {} if authorization is None else {"authorization": authorization}
            return (await collector.ask("POST", "/v1/reports", make_message(1), **headers))[0]

        wrong = (None, "", "Bearer", "Bearer x", "Basic the-first-of-all-tokens", "Bearer the-first-of-all-token")
        refused = {await ask(text) for text in wrong}
        allowed = {await ask("Bearer the-first-of-all-tokens"), await ask("bearer another-good-one-here")}
        file.write_text("short")  # a mistake: what was good stays good
        kept = await ask("Bearer another-good-one-here")
        file.write_text("a-third-token-comes-now")
        replaced = await ask("Bearer another-good-one-here"), await ask("Bearer a-third-token-comes-now")
        return refused, allowed, kept, replaced, (await collector.ask("GET", "/healthz"))[0]

    assert collector.run(work) == ({401}, {202}, 202, (401, 202), 200)


def test_a_token_file_that_cannot_be_used_is_told_of_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tokens, "REREAD_SECONDS", 0.0)
    file = tmp_path / "tokens"
    file.write_text("the-first-of-all-tokens")
    known = Tokens(str(file))
    for text in ("", None, "a-second-token-comes-now"):
        file.unlink() if text is None else file.write_text(text)
        allowed = [known.allow(b"Bearer the-first-of-all-tokens") for _ in range(3)]
        assert allowed == [text != "a-second-token-comes-now"] * 3
    lines = [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()]
    stay = "; the tokens from before stay good"
    assert lines == [f"ValueError{stay}", f"FileNotFoundError{stay}", "read again"]


def test_a_file_that_is_still_being_judged_when_the_collector_stops_is_kept():
    collector = InProcess(Limits(wait_seconds=60))
    allow, judge = threading.Event(), collector.app._judge

    def judge_later(*arguments):
        allow.wait()
        return judge(*arguments)

    collector.app._judge = judge_later

    async def work():
        first = asyncio.ensure_future(collector.post(make_message(1)))
        filed = asyncio.ensure_future(collector.post(encode_avro_file([make_row(2)]), FILE))
        await asyncio.sleep(0.05)
        collector.app.stop()
        done = (await first)[0]
        allow.set()
        return done, (await asyncio.wait_for(filed, 30))[0]

    assert collector.run(work) == (202, 202)
    assert collector.kept.total() == 2


def test_a_collector_that_stops_keeps_what_waits_and_takes_no_more():
    collector = InProcess(Limits(wait_seconds=60))

    async def work():
        waiting = [asyncio.ensure_future(collector.post(make_message(number))) for number in range(3)]
        await asyncio.sleep(0.05)
        collector.app.stop()
        late = await collector.post(make_message(9))
        ready = (await collector.ask("GET", "/readyz"))[0]
        return [status for status, _ in await asyncio.gather(*waiting)], late[0], ready

    assert collector.run(work) == ([202] * 3, 503, 503)
    assert collector.kept.total() == 3
