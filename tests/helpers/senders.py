"""Clients that send reports to collectors that may die at any moment: again and again, until each is acknowledged."""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.helpers.collectors import FILE, MESSAGE
from tests.helpers.reports import encode_avro_file

GIVE_UP_SECONDS = 120.0


@dataclass
class Sender:
    """Sends bodies in their order, each to any of some ports, until it is acknowledged."""

    bodies: Sequence[tuple[bytes, str]]
    ports: Sequence[int]
    seed: int
    answers: list[int] = field(default_factory=list)
    acknowledged: int = 0
    """How many of the bodies, from the first on."""

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        rng, end = random.Random(self.seed), time.monotonic() + GIVE_UP_SECONDS
        for body, kind in self.bodies:
            while time.monotonic() < end:
                status = _post(rng.choice(self.ports), body, kind)
                self.answers.append(status)
                if status == 202:
                    self.acknowledged += 1
                    break
                time.sleep(rng.uniform(0.01, 0.1))

    def join(self) -> None:
        self.thread.join(GIVE_UP_SECONDS)


def _post(port: int, body: bytes, kind: str) -> int:
    """The status, 0 if there was none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", "/v1/reports", body, {"Content-Type": kind})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def bodies_of(rows: Sequence[dict[str, Any]], encode: Any, rng: random.Random) -> list[tuple[bytes, str]]:
    """Some as messages, some as files of several."""
    bodies, left = [], list(rows)
    while left:
        size = rng.choice((1, 1, 1, 20))
        part, left = left[:size], left[size:]
        bodies.append((encode(part[0]), MESSAGE) if len(part) == 1 else (encode_avro_file(part), FILE))
    return bodies
