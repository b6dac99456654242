"""Pub/Sub as an unbounded source: Beam's own, its messages gathered into polls.

A message is received when it was published. The watermark is Pub/Sub's own, which knows nothing of `max_delay`: the
on-time pane of a window comes that much sooner than from the other sources, and late panes mend it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PCollection
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from transforms.sources.poll import Poll, polls

POLL_BYTES = 1 << 22


class GatherMessages(beam.DoFn):
    """The messages of a bundle as polls, so that they are decoded and counted together."""

    def __init__(self, source: str) -> None:
        self.source = source

    def start_bundle(self) -> None:
        self.waiting: list[tuple[int, bytes]] = []
        self.size = 0

    def process(self, element: bytes, published: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        self.waiting.append((published.micros // 1000, element))
        self.size += len(element)
        if self.size > POLL_BYTES:
            for poll, when in self._take():
                yield TimestampedValue(poll, when)

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for poll, when in self._take():
            yield WindowedValue(poll, when, (GlobalWindow(),))

    def _take(self) -> Iterator[tuple[Poll, Timestamp]]:
        waiting = sorted(self.waiting, key=lambda message: message[0])
        self.start_bundle()
        received = np.array([when for when, _ in waiting], dtype=np.int64)
        for poll in polls(self.source, None, received, [message for _, message in waiting]):
            yield poll, Timestamp(micros=1000 * int(poll.received[0]))


@dataclass
class ReadPubSub(beam.PTransform[Any, Any]):
    """Polls of a subscription."""

    subscription: str

    def expand(self, pipeline: Any) -> PCollection[Any]:
        from apache_beam.io.gcp.pubsub import ReadFromPubSub  # an extra brings it

        return (
            pipeline
            | "Messages" >> ReadFromPubSub(subscription=self.subscription)
            | "Gather" >> beam.ParDo(GatherMessages(self.subscription))
        )
