"""Bounds on the answers that an HTTP client takes in: their size, and the time until their end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any


class OversizedAnswerError(Exception):
    """An answer in JSON, so not the page of a proxy, that is larger than allowed."""


class UnboundedAnswerError(Exception):
    """An answer that does not end, or may unfold without end."""


def bound_answers(session: Any, most_bytes: int, seconds: float) -> None:
    """From now on, answers to a client of httpx, or of its successor httpx2, are read within these bounds."""
    stream_type: Any = import_module(type(session).__module__.partition(".")[0]).SyncByteStream

    class Bounded(stream_type):
        def __init__(self, stream: Any, is_json: bool) -> None:
            self.stream, self.is_json, self.end = stream, is_json, time.monotonic() + seconds

        def __iter__(self) -> Iterator[bytes]:
            total = 0
            for chunk in self.stream:
                total += len(chunk)
                if total > most_bytes:
                    error = OversizedAnswerError if self.is_json else UnboundedAnswerError
                    raise error(f"an answer of more than {most_bytes:,} bytes")
                if time.monotonic() > self.end:
                    raise UnboundedAnswerError(f"an answer that took longer than {seconds:g} seconds")
                yield chunk

        def close(self) -> None:
            self.stream.close()

    def bound(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise UnboundedAnswerError("a compressed answer, which was not asked for")
        is_json = response.is_success and "json" in response.headers.get("content-type", "")
        response.stream = Bounded(response.stream, is_json)

    session.headers["Accept-Encoding"] = "identity"
    session.event_hooks = {"request": [], "response": [bound]}
