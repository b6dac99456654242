"""Messages to a Kafka topic: a bundle ends when the brokers have them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apache_beam as beam

from hushgram.transforms.kafka_client import KafkaError, producer
from hushgram.transforms.sinks.patience import OUTAGES, duration

QUIET_SECONDS = 5.0
"""A longer wait for the brokers is logged."""
MARGIN_SECONDS = 5.0
"""The client gives up a message by itself, and reports it a moment later."""


class TopicWriter(beam.DoFn):
    """Each element one message; a bundle is done again unless the brokers have taken all of them.

    The client itself tries again while brokers are away, until its patience is over, and keeps messages in their order.
    """

    what = "messages"
    """What the elements are, for a line about them."""

    def __init__(
        self,
        option: str,
        topic: str,
        properties: Mapping[str, str],
        properties_file: str | None,
        patience_seconds: float,
    ) -> None:
        self.name, self.topic, self.patience_seconds = f"{option} kafka:{topic}", topic, patience_seconds
        self.properties, self.properties_file = dict(properties), properties_file

    def setup(self) -> None:
        self.client: Any = None

    def start_bundle(self) -> None:
        self.failed: list[str] = []
        if self.client is None:
            self.client = producer(self.properties, self.properties_file, **self.settings())

    def settings(self) -> dict[str, Any]:
        """Of the client. Zero would be patience without end, and less than a second no time to connect."""
        return {"message.timeout.ms": min(2**31 - 1, max(1000, round(1000 * self.patience_seconds)))}

    def send(self, value: bytes | None, key: bytes | None, **more: Any) -> None:
        message, more = (self.topic, value, key), {"on_delivery": self.delivered, **more}
        try:
            self.client.produce(*message, **more)
        except BufferError:  # the client holds as many as it may: memory has a bound
            self._flush()
            self.client.produce(*message, **more)
        self.client.poll(0)

    def finish_bundle(self) -> None:
        self._flush()

    def _flush(self) -> None:
        left = self.client.flush(QUIET_SECONDS)
        if left:
            OUTAGES.begin(self.name, self.patience_seconds, f"{left} {self.what} not taken yet")
            left = self.client.flush(self.patience_seconds + MARGIN_SECONDS)
        if left or self.failed:
            # Raised, so that the engine does the bundle again: nothing must be lost in silence.
            reasons = "; ".join(dict.fromkeys(self.failed[:3])) or f"no answer for {duration(self.patience_seconds)}"
            count = max(left, len(self.failed))
            raise KafkaError(f"{self.name}: {count} {self.what} not taken (--sink-patience): {reasons}")
        OUTAGES.end(self.name)

    def delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(error.str())
