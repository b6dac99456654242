"""The tallies of windows to snapshots and histograms.

What a run records, it estimates from scratch. Only early panes of a stream, which the next pane replaces, start from
the pane before, where the estimator can.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms import window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from hushgram import Collection, Estimate
from hushgram._arrays import IntArray
from hushgram.schemas.records import Histogram, Key, Pane, Quantile, Snapshot
from hushgram.transforms import trust
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.tallies import Tallies
from hushgram.transforms.windowing import PaneOfWindow, allowed_lateness

MAX_PANES_AT_ONCE = 256

PaneTallies = tuple[Key, Pane, Tallies]


def histogram(key: Key, pane: Pane, tallies: Tallies) -> Histogram:
    return Histogram(key, pane, dict(tallies.parts), tallies.events)


def snapshots(
    collection: Collection, windows: Sequence[PaneTallies], shares: Sequence[float] | None = None
) -> list[Snapshot]:
    """Snapshots of many windows of one collection, estimated together; shares other than its own may be asked for."""
    estimates = collection.estimate_many([_counts(tallies) for _, _, tallies in windows])
    return [
        _snapshot(collection, key, pane, tallies, estimate, collection.shares if shares is None else shares)
        for (key, pane, tallies), estimate in zip(windows, estimates, strict=True)
    ]


def early_snapshot(
    collection: Collection, key: Key, pane: Pane, tallies: Tallies, start: bytes | None
) -> tuple[Snapshot, bytes | None]:
    """The snapshot of an early pane, from the warm start that the pane before left, and the one for the next pane."""
    estimate = collection.estimate(_counts(tallies), start)
    return _snapshot(collection, key, pane, tallies, estimate, collection.shares), estimate.warm_start


def _counts(tallies: Tallies) -> dict[str, IntArray]:
    return {revision: counts for revision, (_, counts) in tallies.parts.items()}


def _snapshot(
    collection: Collection, key: Key, pane: Pane, tallies: Tallies, estimate: Estimate, shares: Sequence[float]
) -> Snapshot:
    has_distribution = estimate.probabilities is not None
    mean_low, mean_high = estimate.interval("mean")
    variance_low, variance_high = estimate.interval("variance") if has_distribution else (None, None)
    points, lower, upper = estimate.band() if has_distribution else (None, None, None)
    bins = estimate.readable_bins() if has_distribution else (None, None, None)
    heavy_low_end, heavy_high_end = estimate.heavy_ends
    reports = {revision: count for revision, (count, _) in tallies.parts.items()}
    return Snapshot(
        key=key,
        pane=pane,
        status=estimate.status,
        reports=estimate.reports,
        revisions=tuple(sorted(tallies.parts)),
        low=collection.low,
        high=collection.high,
        scale=collection.scale,
        integer=collection.integer,
        unit=collection.unit,
        probabilities=estimate.probabilities,
        mean=estimate.mean,
        mean_low=mean_low,
        mean_high=mean_high,
        variance=estimate.variance if has_distribution else None,
        variance_low=variance_low,
        variance_high=variance_high,
        quantiles=_quantiles(estimate, shares) if has_distribution else None,
        cdf_points=points,
        cdf_low=lower,
        cdf_high=upper,
        iterations=estimate.iterations,
        converged=estimate.converged,
        fit=estimate.fit_pvalue,
        estimator=estimate.solution.estimator or collection.estimator,
        software=_version(),
        events=tallies.events,
        heavy_low_end=heavy_low_end,
        heavy_high_end=heavy_high_end,
        time_zone=collection.windows.time_zone,
        density_edges=bins[0],
        density_low=bins[1],
        density_high=bins[2],
        intervals=estimate.intervals if has_distribution else None,
        central_epsilon=trust.central_epsilon(collection, reports),
        lying_bound=trust.lying_bound(collection, reports),
        epsilon=collection.epsilon,
        mechanism=collection.mechanism.name,
    )


def _quantiles(estimate: Estimate, shares: Sequence[float]) -> tuple[Quantile, ...]:
    low, high = estimate.interval("quantile", shares)
    return tuple(map(Quantile, shares, estimate.quantile(shares).tolist(), low.tolist(), high.tolist()))


@lru_cache(maxsize=1)
def _version() -> str:
    return metadata.version("hushgram")


@dataclass
class EstimateWindows(beam.PTransform[PCollection[PaneOfWindow], PCollection[tuple[Snapshot, Histogram]]]):
    """The tallies of panes to a snapshot of each, with the histogram that it was estimated from."""

    index: CollectionIndex
    generation: int

    def expand(self, panes: PCollection[PaneOfWindow]) -> PCollection[tuple[Snapshot, Histogram]]:
        # State has a price, and a step with state another place in a savepoint: only where there is something to keep.
        warm = not panes.is_bounded and any(collection.has_warm_starts for collection in self.index.collections)
        estimate = (EstimateStream if warm else EstimateBundle)(self.index, self.generation)
        return panes | "Estimate" >> beam.ParDo(estimate).with_output_types(tuple[Snapshot, Histogram])


class EstimateBundle(beam.DoFn):
    """The panes of a bundle are estimated together, those of one collection as one problem."""

    def __init__(self, index: CollectionIndex, generation: int) -> None:
        self.collections = {collection.name: collection for collection in index.collections}
        self.generation = generation

    def start_bundle(self) -> None:
        self.panes: list[PaneTallies] = []

    def process(self, element: PaneOfWindow) -> Iterator[tuple[Snapshot, Histogram]]:
        self.panes.append(self.pane_of(element))
        if len(self.panes) >= MAX_PANES_AT_ONCE:
            yield from self._estimate()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for result in self._estimate():
            yield WindowedValue(result, MIN_TIMESTAMP, (window.GlobalWindow(),))

    def pane_of(self, element: PaneOfWindow) -> PaneTallies:
        key, (index, timing, tallies) = element
        return key, Pane(self.generation, index, timing), tallies

    def _estimate(self) -> Iterator[tuple[Snapshot, Histogram]]:
        by_collection: dict[str, list[PaneTallies]] = {}
        for entry in self.panes:
            by_collection.setdefault(entry[0].collection, []).append(entry)
        self.panes = []
        for name, entries in by_collection.items():
            started = time.monotonic()
            estimated = snapshots(self.collections[name], entries)
            count_estimates(entries, started)
            for (key, pane, tallies), snapshot in zip(entries, estimated, strict=True):
                yield snapshot, histogram(key, pane, tallies)


class EstimateStream(EstimateBundle):
    """The same in a stream, where an early pane starts from the one before: state per key and window is its warm start.

    On-time and late panes, any of which may be the last, are estimated from scratch, so that what is recorded does not
    depend on which panes came before. The on-time pane ends the state; a timer does where there was none.
    """

    START = ReadModifyWriteStateSpec("warm_start", BytesCoder())
    FORGET = TimerSpec("forget", TimeDomain.WATERMARK)

    def process(
        self,
        element: PaneOfWindow,
        start: Any = beam.DoFn.StateParam(START),
        forget: Any = beam.DoFn.TimerParam(FORGET),
    ) -> Iterator[tuple[Snapshot, Histogram]]:
        key, pane, tallies = self.pane_of(element)
        collection = self.collections[key.collection]
        if pane.timing != "early" or not collection.has_warm_starts:
            if pane.timing == "on_time":
                start.clear()
            yield from super().process(element)
            return
        started = time.monotonic()
        snapshot, left = early_snapshot(collection, key, pane, tallies, start.read())
        if left is None:
            start.clear()
        else:
            start.write(left)
            forget.set(Timestamp(micros=1000 * (key.window_end + allowed_lateness(collection.windows))))
        count_estimates([(key, pane, tallies)], started)
        yield snapshot, histogram(key, pane, tallies)

    @on_timer(FORGET)
    def forget_start(self, start: Any = beam.DoFn.StateParam(START)) -> None:
        start.clear()


def count_estimates(panes: Sequence[PaneTallies], started: float) -> None:
    """In the metrics of the run; panes are estimated together, from `started` on."""
    Metrics.distribution("windows", "estimate_ms").update(round(1000 * (time.monotonic() - started)))
    for _, pane, _ in panes:
        Metrics.counter("windows", "estimated").inc()
        Metrics.counter("windows", f"{pane.timing}_panes").inc()
