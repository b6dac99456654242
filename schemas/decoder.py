"""Records of our own schemas decoded into columns by decoder.c, which trusts no byte of them.

Why C: polars takes several times as long, and may panic or read past damage, so that it needs guards around it; numba
is 64 MB of wheels on every worker, which compile there. Neither numba nor Cython was timed here.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hushgram._arrays import BoolArray, IntArray, UIntArray
from hushgram._native import NUMBER, POINTER, SECRET, function

DAMAGES = (
    "",
    "it reaches beyond its end",
    "a number of more than 64 bits, or in more bytes than it takes",
    "a size below zero",
    "neither null nor a value where it must be one",
    "a text that is not UTF-8",
    "it ends before its bytes do",
)
"""What may be wrong with a record, by the numbers that decoder.c gives."""

_decode = function("hushgram_decode", ctypes.c_char_p, NUMBER, NUMBER, *(POINTER,) * 4, result=NUMBER)


class Spans(NamedTuple):
    """By row, where bytes stand in the data; a size of -1 is null."""

    starts: IntArray
    sizes: IntArray


class Texts(NamedTuple):
    """By row, which of the distinct texts it has, and where in the data these stand."""

    codes: IntArray
    names: Spans


class Decoded(NamedTuple):
    """The records that are whole, a row for each; and for each record what is wrong with it, by number."""

    collection: Texts
    revision: UIntArray
    cells: IntArray
    packed: Spans | None
    event_time: IntArray
    group: Texts
    has_id: BoolArray
    id: UIntArray
    ids: Spans | None
    damage: npt.NDArray[np.uint8]


class _Texts(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("codes", "starts", "sizes", "firsts", "slots")),
        ("last_slot", ctypes.c_int64),
        ("count", ctypes.c_int64),
    ]


class _Columns(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("revision", "event_time", "cells", "cells_sizes", "ids", "ids_sizes", "id", "has_id")
        ),
        ("collection", _Texts),
        ("group", _Texts),
    ]


def decode_records(data: bytes, count: int, fields: tuple[str, ...], lengths: IntArray | None = None) -> Decoded:
    """`count` records with these fields, end to end in the data; all but damaged ones if the length of each is known,
    otherwise those before the first damage.

    The memory taken is in proportion to `count`, which the caller has held against the size of the data.
    """
    packed, with_ids = "cells" in fields, "ids" in fields
    revision, identifier = np.empty(count, np.uint64), np.empty((count, 2), np.uint64)
    event_time, cells, cells_sizes, ids, ids_sizes = np.empty((5, count), np.int64)
    has_id, damage = np.empty(count, bool), np.zeros(count, np.uint8)
    collection, group = _TextTable(count), _TextTable(count)
    columns = _Columns(
        revision.ctypes.data,
        event_time.ctypes.data,
        cells.ctypes.data,
        cells_sizes.ctypes.data if packed else None,
        ids.ctypes.data if with_ids else None,
        ids_sizes.ctypes.data if with_ids else None,
        identifier.ctypes.data,
        has_id.ctypes.data,
        collection.structure,
        group.structure,
    )
    ends = None if lengths is None else np.cumsum(lengths, dtype=np.int64)
    if lengths is not None and (lengths.size != count or (lengths < 0).any() or int(lengths.sum()) != len(data)):
        raise ValueError("lengths that are not those of the records")
    rows = _decode(
        data,
        len(data),
        count,
        None if ends is None else ends.ctypes.data,
        SECRET.ctypes.data,
        ctypes.byref(columns),
        damage.ctypes.data,
    )
    return Decoded(
        collection=collection.texts(columns.collection.count, rows),
        revision=revision[:rows],
        cells=cells[:rows],
        packed=Spans(cells[:rows], cells_sizes[:rows]) if packed else None,
        event_time=event_time[:rows],
        group=group.texts(columns.group.count, rows),
        has_id=has_id[:rows],
        id=identifier[:rows],
        ids=Spans(ids[:rows], ids_sizes[:rows]) if with_ids else None,
        damage=damage,
    )


class _TextTable:
    """Room for as many distinct texts as there are rows; pages that nothing is written to take no memory."""

    def __init__(self, count: int) -> None:
        self.codes, self.starts, self.sizes, self.firsts = np.empty((4, count), np.int64)
        self.slots = np.zeros(1 << (2 * count).bit_length(), np.uint32)
        arrays = self.codes, self.starts, self.sizes, self.firsts, self.slots
        self.structure = _Texts(*(array.ctypes.data for array in arrays), self.slots.size - 1, 0)

    def texts(self, count: int, rows: int) -> Texts:
        return Texts(self.codes[:rows], Spans(self.starts[:count], self.sizes[:count]))
