"""Uploads with an id, counted once: columns to the shard of their id, and there the first of each."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import fields

import numpy as np

from transforms.uploads import Uploads

SHARDS = 64


def shards(uploads: Uploads, count: int = SHARDS) -> Iterator[tuple[int, Uploads]]:
    """The uploads of each shard that has any. Ids are random, so their last bits spread them evenly."""
    shard = (uploads.id[:, 1] % np.uint64(count)).astype(np.int64)
    for number in np.unique(shard).tolist():
        yield number, uploads.take(shard == number)


def first_of_each_id(parts: Sequence[Uploads]) -> tuple[Uploads, Uploads]:
    """The uploads whose id comes for the first time, and the others.

    Which of several uploads with one id comes first is not promised; that one of them counts is.
    """
    together = _concatenate(parts)
    ids = np.ascontiguousarray(together.id).view([("high", np.uint64), ("low", np.uint64)]).ravel()
    _, first = np.unique(ids, return_index=True)
    is_first = np.zeros(len(together), dtype=bool)
    is_first[first] = True
    return together.take(is_first), together.take(~is_first)


def _concatenate(parts: Sequence[Uploads]) -> Uploads:
    columns = {field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Uploads)}
    return Uploads(**columns)


def pack(uploads: Uploads) -> bytes:
    """Columns as bytes, for the way to their shard."""
    stream = io.BytesIO()
    for field in fields(uploads):
        np.save(stream, getattr(uploads, field.name), allow_pickle=False)
    return stream.getvalue()


def unpack(data: bytes) -> Uploads:
    stream = io.BytesIO(data)
    return Uploads(**{field.name: np.load(stream, allow_pickle=False) for field in fields(Uploads)})
