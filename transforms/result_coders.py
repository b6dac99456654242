"""Results on their way between stages: as Avro messages, which name their schema, and never pickled. What a checkpoint
holds, a later version must read."""

from __future__ import annotations

from typing import Any, ClassVar

from apache_beam import coders
from apache_beam.coders import typecoders

from schemas.definitions import DEAD_LETTER, HISTOGRAM, SNAPSHOT, Definition
from schemas.messages import decode_message, encode_message
from schemas.records import DeadLetter, Histogram, Snapshot


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


for coder in (DeadLetterCoder, SnapshotCoder, HistogramCoder):
    typecoders.registry.register_coder(coder.kind, coder)
