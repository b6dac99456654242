"""The tallies of windows to snapshots and histograms."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata

import apache_beam as beam
from apache_beam.metrics.metric import Metrics
from apache_beam.pvalue import PCollection
from apache_beam.transforms import window
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from hushgram import Collection, Estimate
from hushgram.schemas.records import Histogram, Key, Pane, Quantile, Snapshot
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.tallies import Tallies
from hushgram.transforms.windowing import PaneOfWindow

SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""The quantiles of a snapshot: 5 %, 10 %, … 95 %."""


MAX_PANES_AT_ONCE = 256


def histogram(key: Key, pane: Pane, tallies: Tallies) -> Histogram:
    return Histogram(key, pane, dict(tallies.parts), tallies.events)


def snapshots(
    collection: Collection, windows: Sequence[tuple[Key, Pane, Tallies]], shares: Sequence[float] = SHARES
) -> list[Snapshot]:
    """Snapshots of many windows of one collection, estimated together."""
    counts = [{revision: part for revision, (_, part) in tallies.parts.items()} for _, _, tallies in windows]
    estimates = collection.estimate_many(counts)
    return [
        _snapshot(collection, key, pane, tallies, estimate, shares)
        for (key, pane, tallies), estimate in zip(windows, estimates, strict=True)
    ]


def _snapshot(
    collection: Collection, key: Key, pane: Pane, tallies: Tallies, estimate: Estimate, shares: Sequence[float]
) -> Snapshot:
    has_distribution = estimate.probabilities is not None
    mean_low, mean_high = estimate.interval("mean")
    variance_low, variance_high = estimate.interval("variance") if has_distribution else (None, None)
    points, lower, upper = estimate.band() if has_distribution else (None, None, None)
    heavy_low_end, heavy_high_end = estimate.heavy_ends
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
        estimate = EstimateBundle(self.index, self.generation)
        return panes | "Estimate" >> beam.ParDo(estimate).with_output_types(tuple[Snapshot, Histogram])


class EstimateBundle(beam.DoFn):
    """The panes of a bundle are estimated together, those of one collection as one problem."""

    def __init__(self, index: CollectionIndex, generation: int) -> None:
        self.collections = {collection.name: collection for collection in index.collections}
        self.generation = generation

    def start_bundle(self) -> None:
        self.panes: list[tuple[Key, Pane, Tallies]] = []

    def process(self, element: PaneOfWindow) -> Iterator[tuple[Snapshot, Histogram]]:
        key, (index, timing, tallies) = element
        self.panes.append((key, Pane(self.generation, index, timing), tallies))
        if len(self.panes) >= MAX_PANES_AT_ONCE:
            yield from self._estimate()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for result in self._estimate():
            yield WindowedValue(result, MIN_TIMESTAMP, (window.GlobalWindow(),))

    def _estimate(self) -> Iterator[tuple[Snapshot, Histogram]]:
        by_collection: dict[str, list[tuple[Key, Pane, Tallies]]] = {}
        for entry in self.panes:
            by_collection.setdefault(entry[0].collection, []).append(entry)
        self.panes = []
        for name, entries in by_collection.items():
            started = time.monotonic()
            estimated = snapshots(self.collections[name], entries)
            Metrics.distribution("windows", "estimate_ms").update(round(1000 * (time.monotonic() - started)))
            for (key, pane, tallies), snapshot in zip(entries, estimated, strict=True):
                Metrics.counter("windows", "estimated").inc()
                Metrics.counter("windows", f"{pane.timing}_panes").inc()
                yield snapshot, histogram(key, pane, tallies)
