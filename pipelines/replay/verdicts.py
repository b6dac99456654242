"""Which dead letters are sent again: those that the pipeline would accept now, or all of some reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from hushgram.schemas.framing import id_in_headers, id_of_frame
from hushgram.transforms.dead_messages import LEFT_OUT, OFFSET, PARTITION, PASSED, REASON, TOPIC, TOPIC_ID
from hushgram.transforms.judging import ORDER, judge
from hushgram.transforms.kafka_client import headers_of
from hushgram.transforms.parsing import Parser

Origin = bytes
"""What tells a letter from others. All of a topic's are held in memory: so they are digests, a hundred bytes each."""

NO_REASON = "without a reason"
"""Of a message in the topic that is no dead letter of ours."""
ELSEWHERE = "of another topic"
INCOMPLETE = "without its value"
NEEDS_REGISTRY = "undecodable without --schema-registry"
"""Why letters stay that could not be sent, whatever the collections say; the last names its schema by an id."""


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
        place = [self.headers.get(name) for name in (TOPIC, PARTITION, OFFSET)]
        if None in place:
            return None
        digest = blake2b(digest_size=16)
        for part in (*place, self.headers.get(TOPIC_ID), self.value, self.headers.get(PASSED)):
            digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
        return digest.digest()

    @property
    def names_schema(self) -> bool:
        """Whether it names its schema by the id that this has in a registry."""
        return id_in_headers(self.header_list) is not None or id_of_frame(self.value or b"") is not None

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

    def objections(self, letters: Sequence[Letter], now: int) -> list[str | None]:
        """For each letter why it stays, as of now; None if it is sent again."""
        if self.reasons:
            found = [None if letter.reason in self.reasons else letter.reason for letter in letters]
        else:
            found = self._refusals(letters, now)
        return [self._obstacle(letter) or objection for letter, objection in zip(letters, found, strict=True)]

    def _obstacle(self, letter: Letter) -> str | None:
        """What keeps a letter from being sent, whichever are chosen."""
        if letter.headers.get(TOPIC) not in (None, self.topic.encode()):
            return ELSEWHERE
        return INCOMPLETE if LEFT_OUT in letter.headers else None

    def _refusals(self, letters: Sequence[Letter], now: int) -> list[str | None]:
        """The reasons for which the pipeline would refuse letters that it receives now."""
        assert self.parser is not None
        found: list[str | None] = [None] * len(letters)
        decoded, undecoded = self.parser.decode(
            [letter.value for letter in letters], [letter.header_list for letter in letters]
        )
        for places, columns in decoded:
            reasons = judge(self.parser.index, columns, now, aged=True).reason
            for place, reason in zip(places.tolist(), reasons.tolist(), strict=True):
                found[place] = ORDER[reason] if reason >= 0 else None
        for part in undecoded:
            asks = self.parser.registry is None and letters[part.index].names_schema
            found[part.index] = NEEDS_REGISTRY if asks else part.reason
        return found


@dataclass
class Counts:
    """Dead letters: those that are sent, by the reason of then, those that stay, by that of now, and those that the
    topic had twice."""

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
        for letter, objection in zip(letters, self.choice.objections(letters, now), strict=True):
            if letter.origin is not None and letter.origin in self.seen:
                counts.repeated += 1
                continue
            if letter.origin is not None:
                self.seen.add(letter.origin)
            if objection is None:
                send.append(letter)
                counts.sent[letter.reason] += 1
            else:
                stay.append(letter)
                counts.stay[objection] += 1
        return send, stay
