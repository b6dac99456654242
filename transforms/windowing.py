"""Partial tallies added up by window. In batch all is there at once, and each window has one pane; in a stream it has
early, on-time and late panes, each of which holds all of the window so far. Late panes come with growth: estimates cost
more than anything else, and a few reports more change little.

Beam's panes are discarding here, and the sum is ours: on Flink accumulating panes keep every partial of a window for as
long as it lives. So state per key and window is one tally, and the partials of one early interval.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.coders import TupleCoder, VarIntCoder
from apache_beam.pvalue import PCollection
from apache_beam.transforms import trigger, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming, WindowedValue

from hushgram import Windows
from hushgram.schemas.records import Key, Series
from hushgram.transforms.tallies import CombineTallies, Tallies, TalliesCoder

TIMINGS = {
    PaneInfoTiming.EARLY: "early",
    PaneInfoTiming.ON_TIME: "on_time",
    PaneInfoTiming.LATE: "late",
    PaneInfoTiming.UNKNOWN: "on_time",
}
LATENESS_MARGIN_MS = 60_000

PaneOfWindow = tuple[Key, tuple[int, str, Tallies]]
"""A window, and of one pane of it the index, the timing and the tallies."""


@dataclass
class CombineWindows(beam.PTransform[PCollection[tuple[Series, Tallies]], PCollection[PaneOfWindow]]):
    """Partial tallies, timestamped with the start of their slice, added up by window.

    In a stream, every pane holds all of the window so far. `fanout` is for batch alone: there, each window is first
    added up in this many parts, by as many workers.
    """

    setting: Windows
    fanout: int = 0

    def expand(self, partials: PCollection[tuple[Series, Tallies]]) -> PCollection[PaneOfWindow]:
        return self._batch(partials) if partials.is_bounded else self._stream(partials)

    def _batch(self, partials: PCollection[tuple[Series, Tallies]]) -> PCollection[PaneOfWindow]:
        """By key alone: where everything is there at once, no engine may call anything late."""
        combine = beam.CombinePerKey(CombineTallies())
        by_window = partials | "By window" >> beam.ParDo(ToWindows(self.setting)).with_output_types(tuple[Key, Tallies])
        if self.fanout > 1:
            by_window |= "In parts" >> AddUpParts(self.fanout)
        return (
            by_window
            | "Add up" >> combine.with_output_types(tuple[Key, Tallies])
            | "Pane" >> beam.MapTuple(_only_pane).with_output_types(PaneOfWindow)
        )

    def _stream(self, partials: PCollection[tuple[Series, Tallies]]) -> PCollection[PaneOfWindow]:
        combine = beam.CombinePerKey(CombineTallies())
        accumulate = AccumulatePanes(allowed_lateness(self.setting), self.setting.late_growth)
        windowed = partials | "Window" >> into_panes(self.setting)
        if self.setting.days is not None:
            windowed |= "Local days" >> beam.ParDo(ToLocalDays(self.setting)).with_output_types(tuple[Series, Tallies])
        return (
            windowed
            | "Add up" >> combine.with_output_types(tuple[Series, Tallies])
            | "By window" >> beam.ParDo(ByWindow()).with_output_types(PaneOfWindow)
            | "Global" >> beam.WindowInto(window.GlobalWindows())
            | "Accumulate" >> beam.ParDo(accumulate).with_output_types(PaneOfWindow)
        )


def _only_pane(key: Key, tallies: Tallies) -> PaneOfWindow:
    return key, (0, "on_time", tallies)


@dataclass
class AddUpParts(beam.PTransform[PCollection[tuple[Key, Tallies]], PCollection[tuple[Key, Tallies]]]):
    """The tallies of each key as the sums of up to `parts` parts.

    Beam's own `with_hot_key_fanout` does the same, but drops the type of the key, and with it the coder.
    """

    parts: int

    def expand(self, tallies: PCollection[tuple[Key, Tallies]]) -> PCollection[tuple[Key, Tallies]]:
        part = tuple[tuple[int, Key], Tallies]
        return (
            tallies
            | "Part" >> beam.ParDo(ToPart(self.parts)).with_output_types(part)
            | "Add up" >> beam.CombinePerKey(CombineTallies()).with_output_types(part)
            | "Whole" >> beam.MapTuple(_whole).with_output_types(tuple[Key, Tallies])
        )


class ToPart(beam.DoFn):
    """All keys of a bundle to one part, drawn for the bundle: so a worker still adds up most of it by itself."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def start_bundle(self) -> None:
        self.part = random.randrange(self.parts)

    def process(self, element: tuple[Key, Tallies]) -> Iterator[tuple[tuple[int, Key], Tallies]]:
        key, tallies = element
        yield (self.part, key), tallies


def _whole(part: tuple[int, Key], tallies: Tallies) -> tuple[Key, Tallies]:
    return part[1], tallies


class ToWindows(beam.DoFn):
    """A partial tally of a slice of time to each window that the slice lies in; the window is part of the key."""

    def __init__(self, setting: Windows) -> None:
        self.setting = setting

    def process(
        self, element: tuple[Series, Tallies], slice_start: Any = beam.DoFn.TimestampParam
    ) -> Iterator[tuple[Key, Tallies]]:
        series, tallies = element
        for start, end in self.setting.holding(slice_start.micros // 1000):
            yield Key(series.collection, series.group, start, end), tallies


def window_fn(setting: Windows) -> window.WindowFn:
    # As durations: of seconds Beam makes microseconds by cutting, and 1.001 s would be a microsecond short.
    size, every = (Duration(micros=1000 * length) for length in (setting.size, setting.every))
    first = Timestamp(micros=1000 * setting.first)
    # One window where `ToLocalDays` comes next: Beam would call it once for each, and every call counts.
    one = size == every or setting.days is not None
    return window.FixedWindows(size, first) if one else window.SlidingWindows(size, every, first)


def allowed_lateness(setting: Windows) -> int:
    """Milliseconds: more than any accepted report can need, so that the engine itself never drops one."""
    return setting.max_age + setting.size + LATENESS_MARGIN_MS


def into_panes(setting: Windows) -> beam.WindowInto:
    # Whole seconds: Beam's processing-time trigger takes no less.
    pause = math.ceil((setting.early or 0) / 1000)
    often = trigger.AfterProcessingTime(pause) if pause else trigger.AfterCount(1)
    return beam.WindowInto(
        window_fn(setting),
        trigger=trigger.AfterWatermark(early=often if pause else None, late=often),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
        allowed_lateness=Duration(micros=1000 * allowed_lateness(setting)),
    )


class ToLocalDays(beam.DoFn):
    """Elements of a slice of time into the windows of a time zone that hold it, in place of the one they came in.

    A WindowFn of our own would be Beam's way, but Flink's runner refuses a WindowFn that it does not know. A runner has
    to know whether windows merge, how they are encoded and when they fire, and takes all of that from the windows of
    equal length that `into_panes` names. Which windows an element lies in, the element says.
    """

    def __init__(self, setting: Windows) -> None:
        self.setting = setting

    def process(self, element: Any, start: Any = beam.DoFn.TimestampParam) -> Iterator[WindowedValue]:
        yield WindowedValue(element, start, windows_holding(self.setting, start.micros // 1000))


def windows_holding(setting: Windows, time: int) -> tuple[window.IntervalWindow, ...]:
    """The windows that a time lies in, as Beam knows windows."""
    edges = ((Timestamp(micros=1000 * start), Timestamp(micros=1000 * end)) for start, end in setting.holding(time))
    return tuple(window.IntervalWindow(*both) for both in edges)


class ByWindow(beam.DoFn):
    """The tallies of a series in Beam's window to those of a key that names the window, with the pane they came in."""

    def process(
        self,
        element: tuple[Series, Tallies],
        interval: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[PaneOfWindow]:
        series, tallies = element
        start, end = (edge.micros // 1000 for edge in (interval.start, interval.end))
        key = Key(series.collection, series.group, start, end)
        yield key, (max(0, pane.index), TIMINGS[pane.timing], tallies)


def is_due(timing: str, shown: int, reports: int, growth: float) -> bool:
    """Whether a pane with something new is estimated, where the last that was had `shown` reports.

    >>> [is_due("late", 1000, reports, growth=0.01) for reports in (1001, 1009, 1010)]
    [False, False, True]
    """
    return timing != "late" or reports - shown >= growth * shown


class AccumulatePanes(beam.DoFn):
    """What is new in a pane, in; all of the window so far, out.

    A late pane is held back until the window has grown by a share. What was held back to the end comes out when the
    window expires, so that of every window the last pane has all reports.

    The window is part of the key, and a timer clears the state: Prism drops the state of a window when the window
    ends, and late panes would then pass for the whole.
    """

    TOTAL = ReadModifyWriteStateSpec("total", TalliesCoder())
    HELD = ReadModifyWriteStateSpec("held", TupleCoder((VarIntCoder(), VarIntCoder())))
    """While panes are held back: the reports of the last one before them, and the index of the last of them."""
    EXPIRE = TimerSpec("expire", TimeDomain.WATERMARK)

    def __init__(self, lateness_ms: int, late_growth: float = 0.0) -> None:
        self.lateness_ms, self.late_growth = lateness_ms, late_growth

    def process(
        self,
        element: PaneOfWindow,
        total: Any = beam.DoFn.StateParam(TOTAL),
        held: Any = beam.DoFn.StateParam(HELD),
        expire: Any = beam.DoFn.TimerParam(EXPIRE),
    ) -> Iterator[PaneOfWindow]:
        key, (index, timing, new) = element
        before = total.read()
        if not new.reports:
            # When the watermark passes a window's end and its expiry at once, Flink adds an empty pane to the right
            # one. It says nothing new, unless it is the on-time one of a window that has reports.
            if before is not None and timing == "on_time":
                held.clear()
                yield key, (index, timing, before)
            return
        if before is None:
            expire.set(Timestamp(micros=1000 * (key.window_end + self.lateness_ms)))
        whole = Tallies.merge([new] if before is None else [before, new])
        total.write(whole)
        shown, _ = held.read() or (0 if before is None else before.reports, index)
        if is_due(timing, shown, whole.reports, self.late_growth):
            held.clear()
            yield key, (index, timing, whole)
        else:
            held.write((shown, index))

    @on_timer(EXPIRE)
    def forget(
        self,
        key: Any = beam.DoFn.KeyParam,
        total: Any = beam.DoFn.StateParam(TOTAL),
        held: Any = beam.DoFn.StateParam(HELD),
    ) -> Iterator[PaneOfWindow]:
        waiting, whole = held.read(), total.read()
        held.clear()
        total.clear()
        if waiting is not None:
            yield key, (waiting[1], "late", whole)
