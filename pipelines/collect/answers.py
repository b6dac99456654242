"""What the collector answers: a status, a short JSON body, and when to come back where that helps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hushgram.pipelines.collect.bodies import Refused

JSON = b"application/json"
Headers = tuple[tuple[bytes, bytes], ...]
RETRY_SECONDS = 5
WITHOUT_BODY = (204, 304)
LONGEST_DETAIL = 1000
"""Characters, since details quote what was sent."""


@dataclass(frozen=True)
class Answer:
    """As ASGI sends it."""

    status: int
    body: bytes = b""
    kind: bytes = JSON
    headers: Headers = ()

    @cached_property
    def start(self) -> dict[str, Any]:
        described = (b"content-type", self.kind), (b"content-length", str(len(self.body)).encode())
        own = () if self.status in WITHOUT_BODY else described
        return {"type": "http.response.start", "status": self.status, "headers": (*own, *self.headers)}

    @cached_property
    def content(self) -> dict[str, Any]:
        return {"type": "http.response.body", "body": self.body}

    def with_headers(self, more: Iterable[tuple[bytes, bytes]]) -> Answer:
        return Answer(self.status, self.body, self.kind, (*self.headers, *more))


def problem(status: int, what: str, headers: Headers = (), **more: object) -> Answer:
    """An answer that says what is wrong.

    >>> problem(413, "a body of more than 10 bytes").body
    b'{"error": "a body of more than 10 bytes"}'
    """
    return Answer(status, json.dumps({"error": what, **more}).encode(), headers=headers)


def later(status: int, what: str) -> Answer:
    """One for clients that will come back."""
    return problem(status, what, ((b"retry-after", str(RETRY_SECONDS).encode()),))


def verdict(accepted: int, refused: Sequence[Refused]) -> Answer:
    """How many reports of a body are kept, and why the others never will be: 400 if none is.

    >>> verdict(2, []).body
    b'{"accepted": 2, "refused": 0}'
    """
    counted = {"accepted": accepted, "refused": sum(part.counted for part in refused)}
    reasons = {"refusals": [_shown(part) for part in refused]} if refused else {}
    return Answer(202 if accepted else 400, json.dumps({**counted, **reasons}).encode())


def _shown(refused: Refused) -> Mapping[str, object]:
    return {
        "reason": refused.reason,
        "reports": refused.reports,
        "place": refused.place,
        "detail": refused.detail[:LONGEST_DETAIL],
    }


ONE_KEPT = verdict(1, [])
FULL = later(429, "too much waits to be kept; come back later")
TOO_MANY = problem(413, "a body of more reports than can ever wait here at once; send it in parts")
AWAY = later(503, "reports cannot be kept at the moment; come back later")
STOPPING = later(503, "this collector is about to stop; come back later")
SLOW = problem(408, "the body took too long", ((b"connection", b"close"),))
NOT_FOUND = problem(404, "no such thing here")
UNAUTHORIZED = problem(401, "a bearer token is needed", ((b"www-authenticate", b"Bearer"),))
INTERNAL_ERROR = problem(500, "an error of the collector")
HEALTHY = Answer(200, b'{"status": "ok"}')
