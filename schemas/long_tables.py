"""Snapshots as long tables: one row for each window, for each quantile, for each bucket.

The columns and their meanings are listed here once: files, views, their comments and dbt's sources all follow. What a
snapshot gives is a mapping of columns, all equally long: a table of a million rows is made without a million objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hushgram.intervals import NotEstimableError
from hushgram.schemas.records import Snapshot

Kind = Literal["text", "whole", "number", "flag", "time"]
Columns = Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]
"""By name, all equally long; None is a null. Times are milliseconds since 1970."""


@dataclass(frozen=True)
class Column:
    """A column, and what it means, in words for people who have only the table."""

    name: str
    kind: Kind
    meaning: str
    nullable: bool = False


@dataclass(frozen=True)
class LongTable:
    """A table, the columns that make a row unique, and what of it a snapshot gives."""

    name: str
    meaning: str
    unique: tuple[str, ...]
    columns: tuple[Column, ...]
    of_snapshot: Callable[[Snapshot], Columns]


KEY_COLUMNS = (
    Column("key", "text", "Collection, group and window as one text, the same in every table."),
    Column("collection", "text", "The name of the collection."),
    Column("group_name", "text", "The group; (all) for all groups together, which no group is called."),
    Column("window_start", "time", "When the window begins."),
    Column("window_end", "time", "When the window ends; this moment is no longer in it."),
)
STATUS_COLUMNS = (
    Column("status", "text", "ok, too_few (fewer reports than the collection asks for) or no_reports."),
    Column("reports", "whole", "Reports that were counted."),
    Column("unit", "text", "What the values are measured in; may be empty."),
    Column("epsilon", "number", "The promise to devices, towards whoever sees a report; smaller is stronger.", True),
)
WINDOW_COLUMNS = (
    Column("mean", "number", "The estimated mean of the values."),
    Column("mean_low", "number", "The lower end of the 95 % interval of the mean."),
    Column("mean_high", "number", "The upper end of the 95 % interval of the mean."),
    Column("median", "number", "The value that half of the values are at or below.", True),
    Column("median_low", "number", "The lower end of the 95 % interval of the median.", True),
    Column("median_high", "number", "The upper end of the 95 % interval of the median.", True),
    Column("variance", "number", "The estimated variance of the values.", True),
    Column("variance_low", "number", "The lower end of the 95 % interval of the variance.", True),
    Column("variance_high", "number", "The upper end of the 95 % interval of the variance.", True),
    Column("domain_low", "number", "The least value of the domain; what lies below counts as this."),
    Column("domain_high", "number", "The greatest value of the domain; what lies above counts as this."),
    Column("scale", "text", "linear or log: what buckets have equal room on."),
    Column("whole_numbers", "flag", "Whether values are whole numbers; bucket edges then lie between them."),
    Column("heavy_low_end", "number", "The share of values at the domain's low end, where implausibly large.", True),
    Column("heavy_high_end", "number", "The share of values at the domain's high end, where implausibly large.", True),
    Column("intervals", "text", "What intervals assume: smooth, any_shape or unsmoothed.", True),
    Column("central_epsilon", "number", "Epsilon, with a delta of 1e-8, towards readers of the tally alone.", True),
    Column("lying_bound", "number", "How far the distribution function could be off if 1 % of the devices lied.", True),
    Column("fit", "number", "The p-value of the test that reports obey the mechanism; below 0.001 is suspect.", True),
    Column("mechanism", "text", "How current devices perturb their values.", True),
    Column("estimator", "text", "How the distribution was computed."),
    Column("first_event", "time", "The earliest event time of a report that is counted.", True),
    Column("last_event", "time", "The latest event time of a report that is counted.", True),
    Column("uploads", "whole", "How many uploads brought the reports.", True),
    Column("time_zone", "text", "Whose days the windows follow; null for UTC.", True),
    Column("generation", "whole", "Higher for a corrected rerun."),
    Column("pane_timing", "text", "Whether the window's best answer is early, on_time or late."),
    Column("software", "text", "The version of hushgram that estimated it."),
)
QUANTILE_COLUMNS = (
    Column("share", "number", "The share of values at or below the quantile: 0.5 is the median."),
    Column("value", "number", "The quantile."),
    Column("low", "number", "The lower end of the quantile's 95 % interval."),
    Column("high", "number", "The upper end of the quantile's 95 % interval."),
)
BUCKET_COLUMNS = (
    Column("bucket", "whole", "The number of the bucket, from 1."),
    Column("low", "number", "The bucket's lower edge."),
    Column("high", "number", "The bucket's upper edge."),
    Column("probability", "number", "The estimated share of values in the bucket; some estimators go below zero."),
    Column("cdf", "number", "The estimated share of values up to the bucket's upper edge."),
    Column("cdf_low", "number", "The lower end of the 95 % band of all cdf at once.", True),
    Column("cdf_high", "number", "The upper end of the 95 % band of all cdf at once.", True),
    Column(
        "bin", "whole", "The bin that the bucket lies in, from 1: bins are no finer than reports can tell apart.", True
    ),
    Column("density_low", "number", "The lower 95 % bound of the average density in that bin, all at once.", True),
    Column("density_high", "number", "The upper 95 % bound of the average density in that bin, all at once.", True),
)


def window_columns(snapshot: Snapshot) -> Columns:
    """The one row of a snapshot in the table `windows`."""
    s, pane, events = snapshot, snapshot.pane, snapshot.events
    median = next((quantile for quantile in s.quantiles or () if quantile.share == 0.5), None)
    elsewhere: dict[str, Any] = {
        **{"domain_low": s.low, "domain_high": s.high, "whole_numbers": s.integer},
        "median": median and median.value,
        "median_low": median and median.low,
        "median_high": median and median.high,
        **{"generation": pane.generation, "pane_timing": pane.timing},
        "first_event": events and events.first,
        "last_event": events and events.last,
        "uploads": events and events.uploads,
    }
    own = {c.name: elsewhere[c.name] if c.name in elsewhere else getattr(s, c.name) for c in WINDOW_COLUMNS}
    return {**_repeated(s, 1), **{name: [value] for name, value in own.items()}}


def quantile_columns(snapshot: Snapshot) -> Columns:
    """The rows of a snapshot in the table `quantiles`; none where the mechanism knows a mean only.

    >>> from hushgram.beam import read_snapshots
    >>> for snapshot in read_snapshots("results"):  # doctest: +SKIP
    ...     print(quantile_columns(snapshot)["value"])
    """
    quantiles = snapshot.quantiles or ()
    own = {column.name: [getattr(quantile, column.name) for quantile in quantiles] for column in QUANTILE_COLUMNS}
    return {**_repeated(snapshot, len(quantiles)), **own}


def bucket_columns(snapshot: Snapshot) -> Columns:
    """The rows of a snapshot in the table `buckets`; none where the mechanism knows a mean only."""
    if snapshot.probabilities is None:
        return {**_repeated(snapshot, 0), **{column.name: [] for column in BUCKET_COLUMNS}}
    edges, count = snapshot.edges, snapshot.probabilities.size
    own: dict[str, Sequence[Any] | np.ndarray[Any, Any]] = {
        **{column.name: [None] * count for column in BUCKET_COLUMNS},
        "bucket": np.arange(1, count + 1),
        "low": edges[:-1],
        "high": edges[1:],
        "probability": snapshot.probabilities,
        "cdf": np.clip(np.cumsum(snapshot.probabilities), 0.0, 1.0),
    }
    with suppress(NotEstimableError):  # in results of earlier versions there may be none
        own["cdf_low"], own["cdf_high"] = snapshot.bucket_band()
    with suppress(NotEstimableError):
        bins = snapshot.readable_bins()
        places = np.searchsorted(bins.edges, (edges[:-1] + edges[1:]) / 2, side="right").clip(1, bins.low.size)
        own["bin"], own["density_low"], own["density_high"] = places, bins.low[places - 1], bins.high[places - 1]
    return {**_repeated(snapshot, count), **own}


def _repeated(snapshot: Snapshot, count: int) -> dict[str, list[Any]]:
    """The columns that say of which window a row is, the same in all of its rows."""
    key, s = snapshot.key, snapshot
    values = (key.text, key.collection, key.group_name, key.window_start, key.window_end)
    common = (*values, s.status, s.reports, s.unit, s.epsilon)
    names = (column.name for column in (*KEY_COLUMNS, *STATUS_COLUMNS))
    return {name: [value] * count for name, value in zip(names, common, strict=True)}


WINDOWS = LongTable(
    "windows",
    "The best answer about each collection, group and window.",
    ("key",),
    (*KEY_COLUMNS, *STATUS_COLUMNS, *WINDOW_COLUMNS),
    window_columns,
)
QUANTILES = LongTable(
    "quantiles",
    "The quantiles of each window, with their intervals.",
    ("key", "share"),
    (*KEY_COLUMNS, *STATUS_COLUMNS, *QUANTILE_COLUMNS),
    quantile_columns,
)
BUCKETS = LongTable(
    "buckets",
    "The distribution of each window, bucket by bucket.",
    ("key", "bucket"),
    (*KEY_COLUMNS, *STATUS_COLUMNS, *BUCKET_COLUMNS),
    bucket_columns,
)
LONG_TABLES = (WINDOWS, QUANTILES, BUCKETS)
