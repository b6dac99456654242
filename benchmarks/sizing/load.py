"""A day's uploads, and how they flow: numbers of messages, partial tallies, windows and panes. Nothing is measured.

Uploads come independently of each other, so that their number in any time is Poisson; groups are equally large, and
calls of sources evenly spaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc

from hushgram import Collection, Windows
from hushgram.pipelines.runners import FLINK
from hushgram.pipelines.stream import file_pause
from hushgram.transforms.counting import MAX_BUFFERED_CELLS
from hushgram.transforms.deduplication import grain_ms
from hushgram.transforms.folding import MERGED_AT, SMALL, size_class
from hushgram.transforms.sinks.iceberg import AT_ONCE_STREAM, SHORTEST_PAUSE
from hushgram.transforms.sources.splittable import REST_SECONDS
from hushgram.transforms.uploads import SHARDS
from hushgram.transforms.windowing import allowed_lateness

DAY = 86_400.0
CYCLE = REST_SECONDS - 1.0
"""Seconds between two calls of a partition that has caught up, at least: Flink's runner cuts the rest by up to one."""
HELD = 0.5
"""Seconds that a call holds its slot when its partition has caught up: the broker tells where the partition ends when
the fetch under way is over, which waits for more as long (fetch.wait.max.ms of librdkafka; 500 unless it is set)."""
BUNDLE = int(FLINK.defaults["max_bundle_time_mills"]) / 1000
MANY = 100_000


@dataclass(frozen=True)
class Load:
    """Uploads of one collection. A second is one of the busiest hour, which has `peak` times the mean."""

    collection: Collection
    devices: int
    reports_per_device: float = 1.0
    batch: int = 1
    """Reports in a message: 1 is a Report, more are a ReportBatch."""
    ids: bool = False
    late: float = 0.0
    """The share of uploads that come when their window has had its on-time pane, evenly up to max_age."""
    peak: float = 2.0
    partitions: int = 16
    slots: int = 4
    cycle: float = CYCLE

    # What comes ------------------------------------------------------------------------------------------------------

    @property
    def reports_a_day(self) -> float:
        return self.devices * self.reports_per_device

    @property
    def messages_a_day(self) -> float:
        return self.reports_a_day / self.batch

    @property
    def messages(self) -> float:
        """A second, in the busiest hour."""
        return self.peak * self.messages_a_day / DAY

    def most_messages(self, seconds: float) -> float:
        """The most in any span of this many seconds: no hour exceeds the busiest, no day exceeds a day's total."""
        days, rest = divmod(seconds, DAY)
        return (days * DAY + min(self.peak * rest, DAY)) * self.messages_a_day / DAY

    # From the source to the windows ----------------------------------------------------------------------------------

    @property
    def windows(self) -> Windows:
        return self.collection.windows

    @property
    def groups(self) -> int:
        return len(self.collection.groups)

    @property
    def keys(self) -> int:
        """Of a window: each group, and all together."""
        return self.groups + 1

    @property
    def calls(self) -> float:
        """Of sources, a second; each is a bundle. In a slot there is one after the other."""
        return min(self.partitions / self.cycle, self.slots / HELD)

    @property
    def uploads_in_call(self) -> float:
        return self.messages / self.calls

    @property
    def sent_together(self) -> float:
        """Uploads with an id that a source sends on at once: those of a call, unless they are many."""
        return min(self.uploads_in_call, max(1.0, MAX_BUFFERED_CELLS / self.batch))

    @property
    def pieces(self) -> float:
        """Blocks of uploads with an id, a second: of what is sent at once, one for each shard that has some of it."""
        at_once = self.messages / self.sent_together
        return at_once * SHARDS * _chance_of_any(self.sent_together / SHARDS) if self.ids else 0.0

    @property
    def ids_in_piece(self) -> float:
        return self.messages / self.pieces if self.ids else 0.0

    @property
    def late_slices(self) -> float:
        """How many slices of time late uploads fall in."""
        return max(1.0, self.windows.max_age / self.windows.slice)

    def partials(self, late: bool, of_group: bool) -> float:
        """Partial tallies a second: a bundle has one for each key and slice that it has uploads of."""
        slices, keys = self.late_slices if late else 1.0, self.groups if of_group else 1
        expected = self.uploads_in_call * (self.late if late else 1 - self.late)
        return slices * keys * self._bundles_with(expected / slices / keys) if keys else 0.0

    def uploads_in_partial(self, late: bool, of_group: bool) -> float:
        share = self.late if late else 1 - self.late
        return share * self.messages / self.partials(late, of_group)

    def _bundles_with(self, expected: float) -> float:
        """Bundles a second with at least one upload, where a source's call is expected to make this many."""
        if not self.ids:
            return self.calls * _chance_of_any(expected)
        # Ids are shared out over the slots, and there the pieces of the calls of some time are one bundle.
        own, (calls, more) = expected / self.slots, divmod(BUNDLE * self.calls, 1)
        return (
            self.slots / BUNDLE * ((1 - more) * _chance_of_any(calls * own) + more * _chance_of_any((calls + 1) * own))
        )

    @property
    def all_partials(self) -> float:
        return sum(self.partials(late, of_group) for late in (False, True) for of_group in (False, True))

    @property
    def windows_of_slice(self) -> float:
        """The number of windows that each partial is added to."""
        return self.windows.size / self.windows.every

    # Windows and their panes -----------------------------------------------------------------------------------------

    @property
    def windows_a_day(self) -> float:
        return 1000 * DAY / self.windows.every

    @property
    def windows_alive(self) -> int:
        """At once, at most: a window's tally is kept until nothing can come for it any more."""
        span = self.windows.size + self.windows.max_delay + allowed_lateness(self.windows)
        return math.ceil(span / self.windows.every)

    def uploads_a_second(self, of_group: bool) -> float:
        """Of a key, in the mean of the day."""
        return self.messages_a_day / DAY / (self.groups if of_group else 1)

    def window_reports(self, of_group: bool) -> float:
        """In the busiest window of a key."""
        reports = self.batch * self.most_messages(self.windows.size / 1000)
        return reports / self.groups if of_group else reports

    @property
    def pause(self) -> int:
        """Seconds between two panes of a window, as the trigger takes them; 0 is no early pane."""
        return math.ceil((self.windows.early or 0) / 1000)

    def early_panes(self, of_group: bool) -> float:
        """Of a window of one key, until the watermark passes its end."""
        if not self.pause:
            return 0.0
        open_for = (self.windows.size + self.windows.max_delay) / 1000
        return panes_within(open_for, self.pause, self._gap((1 - self.late) * self.uploads_a_second(of_group)))

    def late_panes(self, of_group: bool, growth: float | None = None) -> float:
        """Of a window of one key, after its on-time pane; the last may fire when nothing comes any more.

        `growth` is that of the collection, unless it is given.
        """
        if not self.windows.max_age:
            return 0.0
        span = self.windows.max_age / 1000
        uploads = self.uploads_a_second(of_group) * self.windows.size / 1000
        often = panes_within(span + self.pause, self.pause, self._gap(self.late * uploads / span))
        growth = self.windows.late_growth if growth is None else growth
        return growing_panes((1 - self.late) * uploads, self.late * uploads, growth, often)

    def _gap(self, uploads: float) -> float:
        """Seconds until the next upload arrives, at this rate; uploads arrive with the calls of sources."""
        rate = self.calls * _chance_of_any(uploads / self.calls)
        return 1 / rate if rate else math.inf

    def panes(self, of_group: bool, growth: float | None = None) -> float:
        """Of a window of one key: early ones, the one on time, late ones.

        As many as the mean of the day makes: they grow slower than uploads, so that busy and quiet hours make no more.
        """
        on_time = _chance_of_any(self.uploads_a_second(of_group) * self.windows.size / 1000)
        return self.early_panes(of_group) + on_time + self.late_panes(of_group, growth)

    def panes_a_day(self, growth: float | None = None) -> float:
        of_groups = self.groups * self.panes(True, growth) if self.groups else 0.0
        return self.windows_a_day * (self.panes(False, growth) + of_groups)

    def late_panes_a_day(self, growth: float | None = None) -> float:
        of_groups = self.groups * self.late_panes(True, growth) if self.groups else 0.0
        return self.windows_a_day * (self.late_panes(False, growth) + of_groups)

    def files_left(self, pane_bytes: float) -> float:
        """How many files of one kind hold a day's panes at its end, if a pane takes `pane_bytes`.

        The panes of a pause are one file, and `MERGED_AT` small files become one; `hushgram compact` leaves one.
        """
        panes, pause = self.panes_a_day(), file_pause([self.collection])
        flushes = min(panes, (DAY + self.windows.max_age / 1000) / pause)
        return count_files(math.ceil(flushes), pane_bytes * panes / flushes)

    @property
    def commits_a_day(self) -> float:
        """To an Iceberg table, at most: one in each pause, and one for each so many panes if those are more."""
        panes, pause = self.panes_a_day(), max(SHORTEST_PAUSE, file_pause([self.collection]))
        return max(min(panes, DAY / pause), panes / AT_ONCE_STREAM)

    # Ids -------------------------------------------------------------------------------------------------------------

    @property
    def ids_alive(self) -> float:
        """At most: an id is kept for max_age, and up to a step of forgetting and the watermark's delay beyond it."""
        seconds = (self.windows.max_age + grain_ms(self.windows.max_age) + self.windows.max_delay) / 1000
        return self.most_messages(seconds) if self.ids else 0.0


def panes_within(seconds: float, pause: float, gap: float) -> float:
    """How many panes fire in some time, if each waits `pause` from what is new on, which comes after `gap` on average.

    The k-th fires when k pauses and k gaps are over, and the sum of k exponential gaps is gamma distributed.

    >>> panes_within(61, 10, 0), round(panes_within(61, 10, 1), 2), panes_within(61, 10, math.inf)
    (6.0, 4.99, 0.0)
    """
    if math.isinf(gap):
        return 0.0
    if not pause:  # a pane for everything that is new
        return seconds / gap
    if seconds > MANY * pause:  # one more or less does not matter
        return seconds / (pause + gap)
    k = np.arange(1, math.floor(seconds / pause) + 1)
    if not gap:
        return float(k.size)
    return float(gammainc(k, (seconds - k * pause) / gap).sum())


def growing_panes(on_time: float, late: float, growth: float, often: float) -> float:
    """The expected number of late panes of a window with `on_time` uploads on time and, on average, `late` ones after.

    A pane comes when the window has grown by the share `growth`, at most `often` times, and once more at the end if
    something was held back. The k-th comes if there are as many late uploads as the first k steps of growth take.

    >>> growing_panes(1000, 100, 0.0, 30), round(growing_panes(1000, 100, 0.01, 30), 1), growing_panes(1000, 0, 0.01, 0)
    (30, 10.1, 0.0)
    """
    step = math.ceil(growth * on_time)
    if step <= 1:  # every late upload is enough
        return often
    needed, shown, panes = 0, on_time, 0.0
    while panes < often:
        needed += math.ceil(growth * shown)
        chance = float(gammainc(needed, late)) if late else 0.0  # of a Poisson number that is at least as large
        if chance < 1e-6:
            break
        panes, shown = panes + chance, on_time + needed
    return min(panes, often) + _chance_of_any(late)


def count_files(flushes: int, size: float) -> int:
    """How many files are left of `flushes` files of `size` bytes each, as `write_panes` folds them."""
    large, small = 0, list[list[float]]([] for _ in range(size_class(SMALL) + 1))
    for _ in range(flushes):
        new = size
        while new < SMALL:
            alike = small[size_class(int(new))]
            alike.append(new)
            if len(alike) < MERGED_AT:
                break
            new = sum(alike)
            alike.clear()
        else:
            large += 1
    return large + sum(map(len, small))


def _chance_of_any(expected: float) -> float:
    """The chance that there is at least one, of a Poisson number."""
    return -math.expm1(-expected)
