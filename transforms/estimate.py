"""The tallies of windows to snapshots and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata

from hushgram import Collection, Estimate
from schemas.records import Histogram, Key, Pane, Quantile, Snapshot
from transforms.tallies import Tallies

SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""The quantiles of a snapshot: 5 %, 10 %, … 95 %."""


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
    known = estimate.probabilities is not None
    mean_low, mean_high = estimate.interval("mean")
    variance_low, variance_high = estimate.interval("variance") if known else (None, None)
    points, lower, upper = estimate.band() if known else (None, None, None)
    asked = shares if known else ()
    heavy_low_end, heavy_high_end = estimate.heavy_ends
    quantiles = tuple(Quantile(q, estimate.quantile(q), *estimate.interval("quantile", q)) for q in asked)
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
        variance=estimate.variance if known else None,
        variance_low=variance_low,
        variance_high=variance_high,
        quantiles=quantiles if known else None,
        cdf_points=points,
        cdf_low=lower,
        cdf_high=upper,
        iterations=estimate.iterations,
        converged=estimate.converged,
        fit=estimate.fit,
        estimator=collection.estimator,
        software=_version(),
        events=tallies.events,
        heavy_low_end=heavy_low_end,
        heavy_high_end=heavy_high_end,
        time_zone=collection.windows.time_zone,
    )


@lru_cache(maxsize=1)
def _version() -> str:
    return metadata.version("hushgram")
