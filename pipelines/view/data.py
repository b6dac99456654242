"""Snapshots as the page needs them: checked, as series over windows, as pictures of one window, in few bytes."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hushgram._arrays import FloatArray
from hushgram.pipelines.formatting import end_details, shown, warnings
from hushgram.schemas.records import ARRAY_FIELDS, Snapshot

LARGEST_FILE = 1 << 28
"""256 MiB: a foreign file may be of any size, and results of one window are far smaller."""
MOST_BUCKETS = 1 << 20
ALWAYS_THERE = ("low", "high", "mean", "mean_low", "mean_high")
PERHAPS_THERE = (
    *("variance", "variance_low", "variance_high", "fit", "heavy_low_end", "heavy_high_end"),
    *("central_epsilon", "lying_bound", "epsilon"),
)


def check_snapshot(record: Mapping[str, Any]) -> Snapshot:
    """A snapshot from a file that may be anyone's. Raises ValueError in words."""
    try:
        snapshot = Snapshot.from_avro(record)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"something else than a snapshot: {type(error).__name__} {error}") from None
    key, pane = snapshot.key, snapshot.pane
    texts = (key.collection, key.group or "", pane.timing, snapshot.status, snapshot.unit, *snapshot.revisions)
    texts = (*texts, snapshot.time_zone or "", snapshot.intervals or "", snapshot.mechanism or "")
    _demand(
        all(isinstance(text, str) for text in (*texts, snapshot.estimator, snapshot.software)), "a text that is none"
    )
    counts = (key.window_start, key.window_end, pane.generation, pane.index, snapshot.reports, snapshot.iterations)
    _demand(all(type(count) is int and abs(count) < 2**63 for count in counts), "a count that is no whole number")
    _demand(key.window_start < key.window_end, "a window that ends before it begins")
    _check_events(snapshot)
    _demand(all(_finite(getattr(snapshot, name)) for name in ALWAYS_THERE), "a number that is none")
    perhaps = [getattr(snapshot, name) for name in PERHAPS_THERE]
    _demand(all(value is None or _finite(value) for value in perhaps), "a number that is none")
    _demand(snapshot.low < snapshot.high, "a domain without width")
    _demand(snapshot.scale == "linear" or (snapshot.scale == "log" and snapshot.low > 0), "a scale that is none")
    _check_distribution(snapshot)
    return snapshot


def _check_events(snapshot: Snapshot) -> None:
    if snapshot.events is not None:
        events = snapshot.events
        _demand(all(type(count) is int for count in vars(events).values()), "a count that is no whole number")
        _demand(events.uploads > 0, "events without an upload")
        inside = snapshot.key.window_start <= events.first <= events.last < snapshot.key.window_end
        _demand(inside, "events outside of their window")


def _check_distribution(snapshot: Snapshot) -> None:
    for quantile in snapshot.quantiles or ():
        _demand(all(map(_finite, vars(quantile).values())), "a quantile that is no number")
    arrays = [array for array in (getattr(snapshot, name) for name in ARRAY_FIELDS) if array is not None]
    _demand(all(array.ndim == 1 and 0 < array.size <= MOST_BUCKETS for array in arrays), "an array of an odd shape")
    _demand(all(bool(np.isfinite(array).all()) for array in arrays), "a number that is none")
    band = [snapshot.cdf_points, snapshot.cdf_low, snapshot.cdf_high]
    sizes = {None if part is None else part.size for part in band}
    _demand(len(sizes) == 1, "a band with an end missing")
    edges, *bounds = (getattr(snapshot, name) for name in ("density_edges", "density_low", "density_high"))
    sizes = {None if part is None else part.size for part in bounds}
    _demand(sizes == {None if edges is None else edges.size - 1}, "bins with an end missing")
    _demand(edges is None or bool((np.diff(edges) > 0).all()), "bins without width")


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def drop_arrays(snapshot: Snapshot) -> Snapshot:
    """Its numbers alone: a thousand windows of them fit in memory, the distributions are read when asked for."""
    nothing: dict[str, Any] = dict.fromkeys(ARRAY_FIELDS)
    return replace(snapshot, **nothing)


def series(snapshots: Sequence[Snapshot]) -> dict[str, Any]:
    """Numbers over the windows of one group; what a window does not have is NaN."""
    shares = sorted({quantile.share for snapshot in snapshots for quantile in snapshot.quantiles or ()})
    column = {share: index for index, share in enumerate(shares)}
    quantiles = np.full((3, len(snapshots), len(shares)), np.nan)
    for row, snapshot in enumerate(snapshots):
        for quantile in snapshot.quantiles or ():
            quantiles[:, row, column[quantile.share]] = quantile.value, quantile.low, quantile.high
    return {
        "reports": [snapshot.reports for snapshot in snapshots],
        "warnings": [warnings(snapshot) for snapshot in snapshots],
        **{name: _floats([getattr(s, name) for s in snapshots]) for name in ("mean", "mean_low", "mean_high", "fit")},
        "shares": shares,
        "value": quantiles[0].ravel(),
        "low": quantiles[1].ravel(),
        "high": quantiles[2].ravel(),
    }


def picture(snapshot: Snapshot) -> dict[str, Any]:
    """Everything of one pane: its distribution and its numbers."""
    quantiles = [[q.share, q.value, q.low, q.high] for q in snapshot.quantiles or ()]
    return {
        **{name: getattr(snapshot, name) for name in (*ALWAYS_THERE, *PERHAPS_THERE)},
        **{name: getattr(snapshot, name) for name in ("reports", "iterations", "converged")},
        **{name: shown(getattr(snapshot, name)) for name in ("status", "estimator", "software")},
        **{name: shown(getattr(snapshot, name) or "") for name in ("intervals", "mechanism")},
        **{name: getattr(snapshot, name) for name in ARRAY_FIELDS},
        "edges": None if snapshot.probabilities is None else snapshot.edges,
        "quantiles": quantiles,
        "warnings": warnings(snapshot),
        "details": end_details(snapshot),
        "revisions": [shown(revision) for revision in snapshot.revisions],
    }


def movement(panes: Sequence[Snapshot]) -> dict[str, Any]:
    """How the estimate of one window moved from pane to pane, the best at last."""
    timings = [{**vars(snapshot.pane), "timing": shown(snapshot.pane.timing)} for snapshot in panes]
    return {**series(panes), "panes": timings}


def _floats(values: Sequence[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def pack(value: Any) -> bytes:
    """A tree of plain values and float arrays in few bytes, every number as exact as it was.

    Gzip of: the length of a JSON text (four bytes, little-endian), the text with each array as {"$": [start, length]},
    then all arrays behind one another, the first byte of every number before the second of any: bytes of one place are
    alike, and compress well. An array that comes twice is stored once.
    """
    parts: list[FloatArray] = []
    places: dict[bytes, list[int]] = {}
    total = 0

    def plain(part: Any) -> Any:
        nonlocal total
        if isinstance(part, dict):
            return {key: plain(inner) for key, inner in part.items()}
        if isinstance(part, (list, tuple)):
            return [plain(inner) for inner in part]
        if not isinstance(part, np.ndarray):
            return part
        data = part.astype("<f8", copy=False)
        content = data.tobytes()
        if content not in places:
            places[content] = [total, data.size]
            parts.append(data)
            total += data.size
        return {"$": places[content]}

    text = json.dumps(plain(value), allow_nan=False, separators=(",", ":")).encode()
    numbers = np.concatenate(parts) if parts else np.empty(0)
    planes = np.ascontiguousarray(numbers.astype("<f8")).view(np.uint8).reshape(-1, 8).T.tobytes()
    return gzip.compress(len(text).to_bytes(4, "little") + text + planes, compresslevel=6, mtime=0)
