"""Which dead letters are sent again: those that the pipeline would accept now, or all of some reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from hushgram._arrays import BoolArray
from hushgram.transforms.dead_messages import LEFT_OUT, OFFSET, PARTITION, PASSED, REASON, TOPIC, TOPIC_ID
from hushgram.transforms.judging import judge
from hushgram.transforms.kafka_client import headers_of
from hushgram.transforms.parsing import Parser

Origin = tuple[bytes | None, ...]

NO_REASON = "without a reason"
"""Of a message in the topic that is no dead letter of ours."""


class Letter(NamedTuple):
    """A dead letter as it is on the topic; `headers` by name, the last of each."""

    value: bytes | None
    key: bytes | None
    header_list: list[Any]
    headers: dict[str, bytes | None]
    stamp: int = 0
    """When it was written, in milliseconds since 1970."""
    place: str = ""
    """Where on the topic it is."""

    @classmethod
    def of(cls, message: Any) -> Letter:
        headers = headers_of([message])[0] or []
        place = f"partition {message.partition()}, offset {message.offset()}"
        return cls(message.value(), message.key(), headers, dict(headers), max(0, message.timestamp()[1]), place)

    @property
    def reason(self) -> str:
        return (self.headers.get(REASON) or NO_REASON.encode()).decode(errors="replace")

    @property
    def origin(self) -> Origin | None:
        """Where the message came from, what it was, and how often it was passed over; None if that is not known.

        A topic that was deleted and created again has the same offsets, but another id. Where ids are not known, what
        the message was tells most of them apart.
        """
        place = tuple(self.headers.get(name) for name in (TOPIC, PARTITION, OFFSET))
        digest = None if self.value is None else blake2b(self.value, digest_size=16).digest()
        return None if None in place else (*place, self.headers.get(TOPIC_ID), digest, self.headers.get(PASSED))

    def passed_over(self) -> list[Any]:
        """The headers of the letter when it was passed over once more."""
        passed = self.headers.get(PASSED) or b"0"
        others = [(name, value) for name, value in self.header_list if name != PASSED]
        return [*others, (PASSED, b"%d" % (1 + (int(passed) if passed.isdigit() and len(passed) < 10 else 0)))]


@dataclass(frozen=True)
class Choice:
    """Which of the dead letters of a topic of reports are sent again.

    With `reasons`, all that were refused for one of them. Without, those that `parser` accepts, received now.
    """

    topic: str
    parser: Parser | None
    reasons: frozenset[str] = frozenset()

    def chosen(self, letters: Sequence[Letter], now: int) -> BoolArray:
        """For each letter whether it is sent again. One that was left out of the dead letter cannot be."""
        ours = [
            letter.headers.get(TOPIC) in (None, self.topic.encode()) and LEFT_OUT not in letter.headers
            for letter in letters
        ]
        wanted = [letter.reason in self.reasons for letter in letters] if self.reasons else self._accepted(letters, now)
        return np.array(ours, dtype=bool) & np.array(wanted, dtype=bool)

    def _accepted(self, letters: Sequence[Letter], now: int) -> BoolArray:
        assert self.parser is not None
        accepted = np.zeros(len(letters), dtype=bool)
        decoded, _ = self.parser.decode(
            [letter.value for letter in letters], [letter.header_list for letter in letters]
        )
        for places, columns in decoded:
            accepted[places] = judge(self.parser.index, columns, now, aged=True).reason < 0
        return accepted


@dataclass
class Counts:
    """Dead letters by reason: those that are sent, those that stay, and those that the topic had twice."""

    sent: Counter[str] = field(default_factory=Counter)
    stay: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    @property
    def all_stay(self) -> bool:
        return not self.sent and not self.repeated

    @classmethod
    def together(cls, parts: Iterable[Counts]) -> Counts:
        total = cls()
        for part in parts:
            total.sent += part.sent
            total.stay += part.stay
            total.repeated += part.repeated
        return total


@dataclass
class Sorter:
    """Letters sorted into those to send, those that stay, and those that came before.

    After a failure of the stream, its dead letters may be on the topic several times; a report that carries no id would
    be counted as often as it is sent.
    """

    choice: Choice
    seen: set[Origin] = field(default_factory=set)

    def sort(self, letters: Sequence[Letter], now: int, counts: Counts) -> tuple[list[Letter], list[Letter]]:
        """Those to send, and those that stay; all are counted."""
        send: list[Letter] = []
        stay: list[Letter] = []
        for letter, is_chosen in zip(letters, self.choice.chosen(letters, now).tolist(), strict=True):
            if letter.origin is not None and letter.origin in self.seen:
                counts.repeated += 1
                continue
            if letter.origin is not None:
                self.seen.add(letter.origin)
            (send if is_chosen else stay).append(letter)
            (counts.sent if is_chosen else counts.stay)[letter.reason] += 1
        return send, stay
