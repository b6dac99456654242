"""How keys and results travel between stages: keys in a fixed layout, results as Avro messages that name their schema.

Nothing is pickled: what a checkpoint holds, a later version must read.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar

from apache_beam import coders
from apache_beam.coders import typecoders

from hushgram.schemas.avro_schemas import DEAD_LETTER, HISTOGRAM, SNAPSHOT, Definition
from hushgram.schemas.messages import decode_message, encode_message
from hushgram.schemas.records import DeadLetter, Histogram, Key, Series, Snapshot

NAME_LENGTH = struct.Struct("<I")
WINDOW = struct.Struct("<qq")


class SeriesCoder(coders.Coder):
    """The length of the collection's name, the name, and the group behind an equals sign if there is one.

    >>> SeriesCoder().encode(Series("commute", None)), SeriesCoder().encode(Series("commute", "DE"))
    (b'\\x07\\x00\\x00\\x00commute', b'\\x07\\x00\\x00\\x00commute=DE')
    """

    def encode(self, value: Series) -> bytes:
        return encode_names(value.collection, value.group)

    def decode(self, encoded: bytes) -> Series:
        return Series(*decode_names(encoded))

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[Series]:
        return Series


class KeyCoder(coders.Coder):
    """The window's start and end, then the series."""

    def encode(self, value: Key) -> bytes:
        return WINDOW.pack(value.window_start, value.window_end) + encode_names(value.collection, value.group)

    def decode(self, encoded: bytes) -> Key:
        return Key(*decode_names(encoded[WINDOW.size :]), *WINDOW.unpack_from(encoded))

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[Key]:
        return Key


def encode_names(collection: str, group: str | None) -> bytes:
    name = collection.encode()
    return NAME_LENGTH.pack(len(name)) + name + (b"" if group is None else b"=" + group.encode())


def decode_names(encoded: bytes) -> tuple[str, str | None]:
    [length] = NAME_LENGTH.unpack_from(encoded)
    end = NAME_LENGTH.size + length
    return encoded[NAME_LENGTH.size : end].decode(), encoded[end + 1 :].decode() if len(encoded) > end else None


class ResultCoder(coders.Coder):
    """Records of one kind."""

    definition: ClassVar[Definition]
    kind: ClassVar[Any]

    def encode(self, value: Any) -> bytes:
        return encode_message(self.definition, value.to_avro())

    def decode(self, encoded: bytes) -> Any:
        return self.kind.from_avro(decode_message(encoded)[1])

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> Any:
        return self.kind


class DeadLetterCoder(ResultCoder):
    definition, kind = DEAD_LETTER, DeadLetter


class SnapshotCoder(ResultCoder):
    definition, kind = SNAPSHOT, Snapshot


class HistogramCoder(ResultCoder):
    definition, kind = HISTOGRAM, Histogram


typecoders.registry.register_coder(Series, SeriesCoder)
typecoders.registry.register_coder(Key, KeyCoder)
for coder in (DeadLetterCoder, SnapshotCoder, HistogramCoder):
    typecoders.registry.register_coder(coder.kind, coder)
