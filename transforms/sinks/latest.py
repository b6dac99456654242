"""A board of the newest answers: of each collection and group the newest window's best, and what was refused.

Boards merge in any order, so a stream keeps one as its state, and a batch builds one at its end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import coders
from apache_beam.coders import typecoders

from hushgram.schemas.records import DeadLetter, Quantile, Snapshot

MOST_PARTS = 32
"""Parts of the domain whose shares a board has: the more, the more series a monitor has to keep."""


@dataclass(frozen=True)
class Entry:
    """What a board shows of a snapshot."""

    window_start: int
    window_end: int
    generation: int
    pane_index: int
    status: str
    reports: int
    mean: float
    mean_low: float
    mean_high: float
    quantiles: tuple[Quantile, ...]
    central_epsilon: float | None = None
    lying_bound: float | None = None
    shares_up_to: tuple[tuple[float, float], ...] = ()
    """Some edges of buckets and the shares of values up to them; none where the mechanism knows a mean only."""

    @property
    def order(self) -> tuple[int, ...]:
        """The newer window comes later; of one window, the better pane."""
        return self.window_end, self.window_start, self.generation, self.reports, self.pane_index


@dataclass(frozen=True)
class Board:
    entries: Mapping[tuple[str, str | None], Entry] = field(default_factory=dict)
    """By collection and group."""
    refused: Mapping[str, int] = field(default_factory=dict)
    """Reports, by reason."""
    unreadable: int = 0
    """Places that could not be read, with an unknown number of reports."""

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> Board:
        key, pane, s = snapshot.key, snapshot.pane, snapshot
        means = s.mean, s.mean_low, s.mean_high
        entry = Entry(
            key.window_start,
            key.window_end,
            pane.generation,
            pane.index,
            s.status,
            s.reports,
            *means,
            s.quantiles or (),
            s.central_epsilon,
            s.lying_bound,
            shares_up_to(s),
        )
        return cls({(key.collection, key.group): entry})

    @classmethod
    def of_letter(cls, letter: DeadLetter) -> Board:
        if letter.reports is None:
            return cls(unreadable=1)
        return cls(refused={letter.reason: letter.reports})

    @classmethod
    def merge(cls, boards: Iterable[Board]) -> Board:
        entries: dict[tuple[str, str | None], Entry] = {}
        refused: Counter[str] = Counter()
        unreadable = 0
        for board in boards:
            for key, entry in board.entries.items():
                if key not in entries or entry.order > entries[key].order:
                    entries[key] = entry
            refused.update(board.refused)
            unreadable += board.unreadable
        return cls(entries, dict(refused), unreadable)


def shares_up_to(snapshot: Snapshot) -> tuple[tuple[float, float], ...]:
    """The distribution function at the edges of equal parts of the domain, the same edges in every window.

    It rises from 0 to 1, also where an estimator lets single probabilities fall below zero.
    """
    if snapshot.probabilities is None:
        return ()
    count = snapshot.probabilities.size
    bounds = np.linspace(0, count, min(MOST_PARTS, count) + 1).round().astype(np.int64)
    rising = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(snapshot.probabilities)]))[bounds]
    rising = np.append(np.clip(rising[:-1], 0.0, 1.0), 1.0)
    return tuple(zip(snapshot.edges[bounds].tolist(), rising.tolist(), strict=True))


class BoardCoder(coders.Coder):
    """Boards as JSON, never pickled: what a checkpoint holds, a later version must read."""

    def encode(self, value: Board) -> bytes:
        entries = sorted(value.entries.items(), key=lambda item: json.dumps(item[0]))
        content = {
            "entries": [[*key, _plain(entry)] for key, entry in entries],
            "refused": value.refused,
            "unreadable": value.unreadable,
        }
        return json.dumps(content, sort_keys=True).encode()

    def decode(self, encoded: bytes) -> Board:
        content = json.loads(encoded)
        entries = {}
        for collection, group, entry in content["entries"]:
            quantiles = tuple(Quantile(**quantile) for quantile in entry.pop("quantiles"))
            shares = tuple((edge, share) for edge, share in entry.pop("shares_up_to", ()))
            entries[collection, group] = Entry(**entry, quantiles=quantiles, shares_up_to=shares)
        return Board(entries, content["refused"], content["unreadable"])

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[Board]:
        return Board


def _plain(entry: Entry) -> dict[str, Any]:
    """Without the shares where there are none, as before version 4."""
    return {name: value for name, value in asdict(entry).items() if name != "shares_up_to" or value}


typecoders.registry.register_coder(Board, BoardCoder)


class MergeBoards(beam.CombineFn):
    def create_accumulator(self) -> Board:
        return Board()

    def add_input(self, accumulator: Board, element: Board) -> Board:
        return Board.merge([accumulator, element])

    def merge_accumulators(self, accumulators: Iterable[Board]) -> Board:
        return Board.merge(accumulators)

    def extract_output(self, accumulator: Board) -> Board:
        return accumulator

    def get_accumulator_coder(self) -> coders.Coder:
        return BoardCoder()
