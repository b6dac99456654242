"""What the sources of a stream have in common: how long a call lasts, and how the watermark follows receipt."""

from __future__ import annotations

import time
from typing import Any

from apache_beam.coders import TimestampCoder
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.metrics.metric import Metrics
from apache_beam.transforms.core import RestrictionProvider, WatermarkEstimatorProvider
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

from hushgram.transforms.sources.message_batch import UNKNOWN

CALL_SECONDS = 2.0
"""A call that finds enough to read goes on for so long. Every call leaves one or two kilobytes in the state of runners
that have not got the fix of apache/beam#27648, so calls should be few."""
REST_SECONDS = 2
"""A source that has caught up rests, and lets the others of its slot work. Flink's runner takes up to a second off."""
CLOCK_MARGIN = 5_000
"""An empty source follows the clock, this many milliseconds behind it: other machines' clocks differ a little."""


def now() -> int:
    return time.time_ns() // 1_000_000


class Watermarks(WatermarkEstimatorProvider):
    """The watermark is set by hand, and kept with the restriction."""

    def initial_estimator_state(self, element: Any, restriction: Any) -> Timestamp:
        return MIN_TIMESTAMP

    def create_watermark_estimator(self, state: Timestamp) -> ManualWatermarkEstimator:
        return ManualWatermarkEstimator(state)

    def estimator_state_coder(self) -> Any:
        return TimestampCoder()  # what the registry has for it pickles


def advance(estimator: Any, received: int, max_delay: int) -> None:
    """Everything from here on is received no earlier than this, so the watermark is that less the greatest delay."""
    if received != UNKNOWN:
        Metrics.distribution("source", "watermark_lag_ms").update(max(0, now() - received + max_delay))
        mark = Timestamp(micros=1000 * (received - max_delay))
        if mark > estimator.current_watermark():
            estimator.set_watermark(mark)


class NeverDone(RestrictionTracker):
    """A restriction without an end: only a checkpoint splits it, into what was read and all the rest."""

    stopped = False

    def position(self) -> Any:
        """Where the rest begins, as a restriction."""
        raise NotImplementedError

    def current_restriction(self) -> Any:
        return self.position()

    def try_split(self, fraction_of_remainder: float) -> Any:
        if fraction_of_remainder != 0 or self.stopped:
            return None
        self.stopped = True
        return (), self.position()

    def check_done(self) -> None:
        if not self.stopped:
            raise ValueError("a source without an end came to one")

    def current_progress(self) -> RestrictionProgress:
        return RestrictionProgress(completed=0, remaining=1)

    def is_bounded(self) -> bool:
        return False


class NeverSplit(RestrictionProvider):
    """A restriction that stays whole; when the job is drained, nothing more is read."""

    def restriction_size(self, element: Any, restriction: Any) -> int:
        return 1

    def split(self, element: Any, restriction: Any) -> Any:
        yield restriction

    def truncate(self, element: Any, restriction: Any) -> None:
        return None
