"""Pub/Sub as an unbounded source: Beam's own, its messages gathered into batches.

A message is received when it was published. The watermark is Pub/Sub's own, which knows nothing of `max_delay`: the
on-time pane of a window comes that much sooner than from the other sources, and late panes correct it.
"""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from hushgram.transforms.sources.message_batch import BatchMessages, Read


@dataclass
class ReadReportsFromPubSub(beam.PTransform[PBegin, PCollection[Read]]):
    """The reports of a Pub/Sub subscription, such as projects/PROJECT/subscriptions/NAME.

    >>> read = ReadReportsFromPubSub("projects/a-project/subscriptions/reports")
    >>> reports = pipeline | read  # doctest: +SKIP
    """

    subscription: str

    def expand(self, pipeline: PBegin) -> PCollection[Read]:
        from apache_beam.io.gcp.pubsub import ReadFromPubSub  # an extra brings it

        return (
            pipeline
            | "Messages" >> ReadFromPubSub(subscription=self.subscription)
            | "Batch" >> BatchMessages(self.subscription)
        )
