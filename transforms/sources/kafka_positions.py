"""Where the partitions of a topic are read, as a checkpoint keeps it, and what becomes of it when the topic changes.

An element reads the partitions of its share. When the topic grows, the new partitions fall to the shares by their
number; when it is deleted and created again, its id is another one, and every position is one of the old topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hushgram.transforms.kafka_client import TopicState
from hushgram.transforms.sources.message_batch import UNKNOWN, Gap
from hushgram.transforms.sources.splittable import NeverDone, NeverSplit, now

Element = tuple[str, str, tuple[int, int], tuple[tuple[int, int], ...]]
"""Topic, its id, the share as (remainder, divisor), and ((partition, first offset), …)."""
Restriction = tuple[str, tuple[tuple[int, int, int, int], ...]]
"""The topic's id, and ((partition, next offset, received, leader epoch), …)."""
NO_EPOCH = -1


@dataclass(frozen=True)
class Position:
    """How far a partition was read."""

    offset: int
    """Of the next message."""
    received: int = UNKNOWN
    """When the latest message was received."""
    epoch: int = NO_EPOCH
    """The leader's epoch at the latest message: it shows whether a broker came back with less data."""


@dataclass(frozen=True)
class Positions:
    """How far each partition of an element was read, in the topic of this id; an empty id is not known."""

    topic_id: str
    partitions: Mapping[int, Position]

    @property
    def offsets(self) -> dict[int, int]:
        return {partition: position.offset for partition, position in self.partitions.items()}

    @property
    def received(self) -> int:
        """Everything still to come is received no earlier."""
        return min(position.received for position in self.partitions.values())

    def moved(self, partition: int, position: Position) -> Positions:
        return replace(self, partitions={**self.partitions, partition: position})

    def followed(self, empty: Iterable[int], received: int) -> Positions:
        """The same, where nothing that was received earlier than this is to come from empty partitions."""
        later = {partition: max(received, self.partitions[partition].received) for partition in empty}
        moved = {partition: replace(self.partitions[partition], received=at) for partition, at in later.items()}
        return replace(self, partitions={**self.partitions, **moved})

    @classmethod
    def of(cls, restriction: Restriction) -> Positions:
        topic_id, partitions = restriction
        return cls(topic_id, {partition: Position(*rest) for partition, *rest in partitions})

    def restriction(self) -> Restriction:
        parts = sorted(self.partitions.items())
        return self.topic_id, tuple((partition, at.offset, at.received, at.epoch) for partition, at in parts)


class TopicError(RuntimeError):
    """A change of the topic after which counts could not be exact; the message says what to do."""


def is_outdated(state: TopicState, positions: Positions) -> bool:
    """Whether a broker described the topic as it was before it had all the partitions that are read.

    Brokers of a cluster hear of new partitions one after the other. A topic of the same id has never fewer.
    """
    return bool(state.id) and state.id == positions.topic_id and state.partitions <= max(positions.partitions)


def adapted(topic: str, share: tuple[int, int], positions: Positions, state: TopicState) -> tuple[Positions, list[Gap]]:
    """The positions in the topic as it is now, and what was deleted before it was read.

    They are the same positions, unless the topic was created again, or has more partitions. New partitions are read
    from their first message on.
    """
    remainder, divisor = share
    own = [partition for partition in range(state.partitions) if partition % divisor == remainder]
    gone = sorted(set(positions.partitions) - set(own))
    if gone:
        raise TopicError(
            f"topic {topic!r} was created again with {state.partitions} partitions, and partition {gone[0]} is read: "
            "give it at least as many partitions as before, or start a stream with a higher --generation"
        )
    gaps: list[Gap] = []
    floor = positions.received
    known = positions.partitions
    if positions.topic_id and state.id and positions.topic_id != state.id:
        detail = (
            f"the topic was deleted and created again (its id was {positions.topic_id}, and is {state.id}): the old "
            "one's messages from here on, if there were any, were not read; the new one is read from its beginning"
        )
        gaps = [gap(topic, partition, position, detail) for partition, position in sorted(known.items())]
        known = {partition: Position(0, position.received) for partition, position in known.items()}
    new = {partition: Position(0, floor) for partition in own if partition not in known}
    return Positions(state.id or positions.topic_id, {**known, **new}), gaps


def beyond(topic: str, partition: int, position: Position, low: int, high: int) -> tuple[Position, Gap]:
    """The next position, and the gap before it, where the broker says that it does not have the position.

    `low` and `high` are the first offset that it has and the one behind the last.
    """
    if position.offset >= low:
        raise TopicError(
            f"{topic}[{partition}]: the broker has lost messages that were read: the next offset is {position.offset}, "
            f"and its log, which ends at {high}, does not lead there; what came in their place is unknown: "
            "start a stream with a higher --generation"
        )
    detail = f"offsets {position.offset} to {low - 1} were deleted before they were read, by retention or by hand"
    return replace(position, offset=low), gap(topic, partition, position, detail)


def gap(topic: str, partition: int, position: Position, detail: str) -> Gap:
    # Before anything was received, the watermark stands at its beginning, and any time will do.
    received = now() if position.received == UNKNOWN else position.received
    return Gap(f"{topic}[{partition}]", position.offset, detail, received)


class PositionsTracker(NeverDone):
    """What is claimed is a whole restriction: where everything stands from now on."""

    def __init__(self, restriction: Restriction) -> None:
        self.restriction = restriction

    def position(self) -> Restriction:
        return self.restriction

    def try_claim(self, position: Restriction) -> bool:
        if self.stopped:
            return False
        self.restriction = position
        return True


class Partitions(NeverSplit):
    def initial_restriction(self, element: Element) -> Restriction:
        _, topic_id, _, starts = element
        return Positions(topic_id, {partition: Position(offset) for partition, offset in starts}).restriction()

    def create_tracker(self, restriction: Any) -> PositionsTracker:
        return PositionsTracker(restriction)
