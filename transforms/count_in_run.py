"""Uploads of a batch run that carry an id, each counted once: also against the ids that earlier runs have counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import TaggedOutput

from schemas.columns import UIntArray
from transforms.deduplicate import NO_IDS, duplicates, first_of_each_id, unpack
from transforms.emit import Emitting
from transforms.plan import Plan
from transforms.run_store import ids_paths
from transforms.runs import Attempt
from transforms.sinks.files import write_atomically

COUNTED_IDS = "counted_ids"


class Deduplicate(Emitting):
    """All uploads of one shard of ids: each id counts once.

    With an attempt of a run, ids that other runs have counted count as seen, and those counted here are kept for the
    runs to come: (shard, when they expire, in milliseconds) comes out as `COUNTED_IDS`.
    """

    def __init__(self, plan: Plan, attempt: Attempt | None = None) -> None:
        super().__init__(plan)
        self.attempt = attempt

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        shard, blocks = element
        parts = [unpack(block) for block in blocks]
        known = NO_IDS if self.attempt is None else known_ids(self.attempt, shard)
        unique, repeated = first_of_each_id([uploads for uploads, _ in parts], known)
        if len(repeated):
            yield self.refuse(duplicates(repeated, max(received for _, received in parts)))
        if self.attempt is not None and len(unique):
            [path] = ids_paths(self.attempt.folder, [shard])
            write_atomically(path, unique.id.astype("<u8", copy=False).tobytes())
            expire_ms = int((unique.event_time + self.plan.max_ages[unique.collection]).max())
            yield TaggedOutput(COUNTED_IDS, (shard, expire_ms))
        yield from self.count(unique)


def known_ids(attempt: Attempt, shard: int) -> UIntArray:
    """The ids of one shard that other runs have counted."""
    found = [NO_IDS]
    for folder, shards in attempt.known_ids:
        if shard in shards:
            [path] = ids_paths(folder, [shard])
            with FileSystems.open(path) as stream:
                found.append(np.frombuffer(stream.read(), "<u8").reshape(-1, 2))
    return np.concatenate(found)
