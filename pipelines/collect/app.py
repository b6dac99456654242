"""The collector as an ASGI application: five paths, three kinds of bodies.

Of a request it looks at method, path, body and six headers: Content-Type, Content-Length, Content-Encoding,
Authorization, If-None-Match and Origin. No other header, no cookie and no address is read, kept or passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from hushgram.pipelines.collect.answers import (
    AWAY,
    FULL,
    HEALTHY,
    INTERNAL_ERROR,
    NOT_FOUND,
    ONE_KEPT,
    SLOW,
    STOPPING,
    TOO_MANY,
    UNAUTHORIZED,
    Answer,
    problem,
    verdict,
)
from hushgram.pipelines.collect.bodies import (
    Judged,
    Refused,
    StricterIndex,
    TooLargeError,
    gunzip,
    judge_file,
    judge_json,
    judge_message,
)
from hushgram.pipelines.collect.counts import Counts
from hushgram.pipelines.collect.deadlines import Deadlines
from hushgram.pipelines.collect.intake import Intake, Outcome, now_ms
from hushgram.pipelines.collect.limits import Limits, QueueBudget
from hushgram.pipelines.collect.log import log_line
from hushgram.pipelines.collect.manifests import Manifest
from hushgram.pipelines.collect.sink import AwayError
from hushgram.pipelines.collect.tokens import Tokens
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.container import DamagedError
from hushgram.schemas.messages import MARKER

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

MESSAGE, FILE, JSON = b"application/vnd.hushgram.report", b"application/vnd.apache.avro", b"application/json"
KINDS = (MESSAGE, FILE, JSON)
ENCODINGS = (b"", b"identity", b"gzip")
METRICS = b"text/plain; version=0.0.4; charset=utf-8"
REPORT_PREFIX = MARKER + REPORT.fingerprint
LARGEST_SINGLE = 4096
"""Messages of one report are judged together, when they are kept; larger ones by themselves."""
BYTES_OF_A_REPORT = 100
"""What a decoded report takes while it waits: ten columns of eight bytes, and a little."""


class DisconnectedError(Exception):
    """The client has closed the connection."""


@dataclass(slots=True)
class Request:
    """What the collector looks at."""

    method: str
    kind: bytes = b""
    length: int | None = None
    encoding: bytes = b""
    authorization: bytes | None = None
    none_match: bytes = b""
    origin: bytes | None = None

    @property
    def is_plain_message(self) -> bool:
        return self.kind == MESSAGE and self.encoding != b"gzip"

    @classmethod
    def of(cls, scope: Scope) -> Request:
        """One pass over the headers, since there is one for each report."""
        request = cls(scope["method"])
        for name, value in scope["headers"]:
            if name == b"content-type":
                request.kind = value if value in KINDS else value.partition(b";")[0].strip().lower()
            elif name == b"content-length":  # a number: the parser has refused everything else
                request.length = int(value)
            elif name == b"content-encoding":
                request.encoding = value.strip().lower()
            elif name == b"authorization":
                request.authorization = value
            elif name == b"if-none-match":
                request.none_match = value
            elif name == b"origin":
                request.origin = value
        return request


@dataclass(frozen=True)
class AccessPolicy:
    """Who may send: bearers of a token, if there are any, and pages of some origins."""

    tokens: Tokens | None = None
    origins: Collection[str] = ()

    def cross_origin(self, request: Request) -> tuple[tuple[bytes, bytes], ...]:
        """The headers by which a browser lets a page of another origin see the answer."""
        if not self.origins:
            return ()
        if request.origin is None or not {"*", request.origin.decode("latin-1")} & set(self.origins):
            return (VARY,)
        return (b"access-control-allow-origin", request.origin), EXPOSED, VARY


VARY = (b"vary", b"Origin")
"""Also where no origin is named: a cache must not hand that answer to a page."""
EXPOSED = (b"access-control-expose-headers", b"retry-after, etag")
PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"content-type, content-encoding, authorization"),
    (b"access-control-max-age", b"86400"),
)


class App:
    """One for each process."""

    def __init__(
        self,
        index: StricterIndex,
        intake: Intake,
        limits: Limits,
        counts: Counts,
        manifests: Mapping[str, Manifest],
        access: AccessPolicy,
    ) -> None:
        self.index, self.intake, self.limits, self.counts, self.access = index, intake, limits, counts, access
        self.room = QueueBudget(limits.largest_queue)
        self.deadlines = Deadlines(limits.body_seconds)
        self.stopping = False
        self._manifests = manifests
        self._judges = ThreadPoolExecutor(1, "judge")
        """Files and JSON, so that a large one holds up neither connections nor single messages."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            try:
                answer = await self._answer(scope, receive)
            except DisconnectedError:
                return
            except Exception as error:  # whose text may quote what was sent
                log_line(f"a request failed: {type(error).__name__}")
                answer = INTERNAL_ERROR
            self.counts.answers[answer.status] += 1
            await send(answer.start)
            await send(answer.content)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            event = (await receive())["type"]
            if event == "lifespan.startup":
                self.intake.start()
                self.deadlines.start()
            elif event == "lifespan.shutdown":
                self.deadlines.stop()
                await self.intake.stop()
                self._judges.shutdown()
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return

    def stop(self) -> None:
        """No new request is taken, and nothing waits for more."""
        self.stopping = True
        self.intake.stop_waiting()

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        request, path = Request.of(scope), scope["path"]
        if path == "/v1/reports":
            answer = await self._reports(request, receive)
        elif request.method not in ("GET", "HEAD", "OPTIONS"):
            answer = problem(405, "allowed: GET", ((b"allow", b"GET, HEAD, OPTIONS"),))
        elif path == "/v1/manifest" or path.startswith("/v1/manifest/"):
            answer = self._manifest(request, path.removeprefix("/v1/manifest").removeprefix("/"))
        else:
            return self._operations(path)
        return answer.with_headers(more) if (more := self.access.cross_origin(request)) else answer

    def _operations(self, path: str) -> Answer:
        """For those who run the collector."""
        if path == "/healthz":
            return HEALTHY if self.intake.works else INTERNAL_ERROR
        if path == "/readyz":
            return STOPPING if self.stopping else AWAY if self.intake.away is not None else HEALTHY
        if path == "/metrics":
            self.counts.queue_bytes = self.room.taken
            return Answer(200, self.counts.text(), METRICS)
        return NOT_FOUND

    def _manifest(self, request: Request, name: str) -> Answer:
        if request.method == "OPTIONS":
            return Answer(204, headers=PREFLIGHT)
        if not self._allowed(request):
            return UNAUTHORIZED
        if not name and len(self._manifests) == 1:
            [name] = self._manifests
        found = self._manifests.get(name)
        if found is None:
            return problem(404, "no such collection; allowed: /v1/manifest/NAME", collections=list(self._manifests))
        headers = ((b"etag", found.tag.encode()), (b"cache-control", b"max-age=300"))
        if found.matches(request.none_match.decode("latin-1")):
            return Answer(304, headers=headers)
        return Answer(200, found.body, headers=headers)

    async def _reports(self, request: Request, receive: Receive) -> Answer:
        if request.method == "OPTIONS":
            return Answer(204, headers=PREFLIGHT)
        if request.method != "POST":
            return problem(405, "allowed: POST", ((b"allow", b"POST, OPTIONS"),))
        if not self._allowed(request):
            return UNAUTHORIZED
        if request.kind not in KINDS or request.encoding not in ENCODINGS:
            return problem(415, f"allowed: {b', '.join(KINDS).decode()}; Content-Encoding: gzip, or none")
        if self.stopping:
            return STOPPING
        if self.intake.away is not None:
            return AWAY
        if (request.length or 0) > self.limits.largest_body:
            return self._too_large()
        room = _Reserved(self.room)
        try:
            with self.deadlines.of_this_task():
                body = await self._body(receive, room)
            if isinstance(body, Answer):
                return body
            return await self._taken(request, body, room)
        except TimeoutError:
            return SLOW
        finally:
            room.give_back()

    async def _body(self, receive: Receive, room: _Reserved) -> bytes | Answer:
        """The body; or the answer, where there is no room for it. What was announced and has not come takes none."""
        parts, size, more = list[bytes](), 0, True
        while more:
            event = await receive()
            if event["type"] == "http.disconnect":
                raise DisconnectedError
            part, more = event.get("body", b""), event.get("more_body", False)
            size += len(part)
            if size > self.limits.largest_body:
                return self._too_large()
            if not room.take(len(part)):
                return FULL
            parts.append(part)
        return b"".join(parts)

    async def _taken(self, request: Request, body: bytes, room: _Reserved) -> Answer:
        """Once it is kept."""
        if body.startswith(REPORT_PREFIX) and len(body) <= LARGEST_SINGLE and request.is_plain_message:
            return _answer_to_one(await self.intake.keep_message(body))
        try:
            judged = await asyncio.get_running_loop().run_in_executor(self._judges, self._judge, request, body)
        except TooLargeError as error:
            return problem(413, str(error))
        if not room.take(decoded := BYTES_OF_A_REPORT * judged.reports):
            return FULL if room.could_take(decoded) else TOO_MANY
        outcome = await self.intake.keep_uploads(judged) if judged.reports else None
        if outcome is not None:
            return AWAY
        for refused in judged.refused:
            self.intake.refuse(refused)
        return verdict(judged.reports, judged.refused)

    def _judge(self, request: Request, body: bytes) -> Judged:
        """In a thread of its own."""
        limit, now = self.limits.largest_body, now_ms()
        try:
            plain = gunzip(body, limit) if request.encoding == b"gzip" else body
        except DamagedError as error:
            return Judged(refused=(Refused("undecodable", None, str(error)),))
        if request.kind == MESSAGE:
            return judge_message(self.index, plain, now)
        return judge_json(self.index, plain, now) if request.kind == JSON else judge_file(self.index, plain, now, limit)

    def _too_large(self) -> Answer:
        return problem(413, str(TooLargeError(self.limits.largest_body)))

    def _allowed(self, request: Request) -> bool:
        return self.access.tokens is None or self.access.tokens.allow(request.authorization)


def _answer_to_one(outcome: Outcome) -> Answer:
    """To the sender of one report."""
    if outcome is None:
        return ONE_KEPT
    return AWAY if isinstance(outcome, AwayError) else verdict(0, [outcome])


class _Reserved:
    """What one request has taken of the queue."""

    def __init__(self, room: QueueBudget) -> None:
        self.room, self.taken = room, 0

    def take(self, size: int) -> bool:
        taken = self.room.take(size)
        self.taken += size if taken else 0
        return taken

    def could_take(self, size: int) -> bool:
        """If no other request had taken any."""
        return self.taken + size <= self.room.size

    def give_back(self) -> None:
        self.room.give_back(self.taken)
