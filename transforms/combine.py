"""Partial tallies summed up per key and window."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam
from apache_beam import coders
from apache_beam.coders import typecoders

from transforms.tallies import Tallies, decode, encode


class TalliesCoder(coders.Coder):
    """Tallies in their own fixed layout, never pickled: what a checkpoint holds, a later version must read."""

    def encode(self, value: Tallies) -> bytes:
        return encode(value)

    def decode(self, encoded: bytes) -> Tallies:
        return decode(encoded)

    def is_deterministic(self) -> bool:
        return True

    def to_type_hint(self) -> type[Tallies]:
        return Tallies


typecoders.registry.register_coder(Tallies, TalliesCoder)


class CombineTallies(beam.CombineFn):
    """The sum of tallies, which is their merger."""

    def create_accumulator(self) -> Tallies:
        return Tallies()

    def add_input(self, accumulator: Tallies, element: Tallies) -> Tallies:
        return accumulator.add(element)

    def merge_accumulators(self, accumulators: Iterable[Tallies]) -> Tallies:
        # A fresh one: on Flink the given accumulators may be state.
        return Tallies.merge(accumulators)

    def extract_output(self, accumulator: Tallies) -> Tallies:
        return accumulator

    def get_accumulator_coder(self) -> coders.Coder:
        return TalliesCoder()
