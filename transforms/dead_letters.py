"""Dead letters of a stream, kept together by the minute of receipt."""

from __future__ import annotations

from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import PCollection
from apache_beam.transforms import trigger, window

from hushgram.schemas.records import DeadLetter
from hushgram.transforms.sources.message_batch import LETTER_MINUTE

DAY = 86_400


@dataclass
class ByMinute(beam.PTransform[PCollection[DeadLetter], PCollection[DeadLetter]]):
    """Dead letters in windows of the minute in which their reports were received, each closed once.

    Received times never lie behind the watermark, so nothing comes late; were an engine's watermark to run ahead, what
    came late would be a pane, and a file, of its own.
    """

    def expand(self, dead_letters: PCollection[DeadLetter]) -> PCollection[DeadLetter]:
        return dead_letters | beam.WindowInto(
            window.FixedWindows(LETTER_MINUTE / 1000),
            trigger=trigger.AfterWatermark(late=trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
            allowed_lateness=DAY,
        )
