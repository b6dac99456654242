"""Messages that name their schema by an id, parsed, against single-object messages: `python -m benchmarks.framing`.

The same reports in polls as the source hands them on, decoded, judged and ready to count; ids with a real schema
registry, the others without any. All take turns in this process; of each the fastest round counts.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.streams import encode_messages
from devtools import Registry
from hushgram import Collection
from hushgram.pipelines.cli.registry import connect, registry_in
from hushgram.pipelines.schemas import register
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH
from hushgram.schemas.framing import ID_HEADER, Headers, frame
from hushgram.schemas.messages import MARKER, PREFIX, reframe
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.parsing import Parser
from hushgram.transforms.schema_registry import SchemaRegistry
from hushgram.transforms.sources.message_batch import MessageBatch
from hushgram.transforms.uploads import Uploads

ROUNDS = 15
POLLS = 20
SINGLE, BATCHES = 10_000, 700
"""Messages of a poll."""


def make_polls(messages: Sequence[bytes], headers: tuple[Headers | None, ...]) -> list[MessageBatch]:
    received = np.full(len(messages), time.time_ns() // 1_000_000)
    offsets, keys = np.arange(len(messages)), (None,) * len(messages)
    return [MessageBatch("reports[0]", offsets, received, tuple(messages), keys, headers)] * POLLS


def time_forms(forms: dict[str, tuple[Parser, list[MessageBatch]]]) -> dict[str, float]:
    """The seconds of each form's fastest round."""
    seconds = dict.fromkeys(forms, float("inf"))
    for _ in range(ROUNDS):
        for name, (parser, polls) in forms.items():
            start = time.perf_counter()
            outcomes = [outcome for poll in polls for outcome in parser.parse(poll)]
            seconds[name] = min(seconds[name], time.perf_counter() - start)
            assert all(isinstance(outcome, Uploads) for outcome in outcomes)
    return seconds


def measure(registry: SchemaRegistry, collection: Collection) -> None:
    index = CollectionIndex.of([collection])
    asking, plain_parser = Parser(index, registry=registry), Parser(index)
    client = connect(registry)
    print("| what | measured | target |\n|---|---|---|")
    for label, definition, count, packed in (
        ("single reports", REPORT, SINGLE, False),
        ("batches of 1000 reports", REPORT_BATCH, BATCHES * 1000, True),
    ):
        schema_id = register(client, definition)[-1]
        plain = encode_messages(collection, count, packed=packed, ids=False)
        framed = [reframe(message, {MARKER + definition.fingerprint: frame(schema_id)}) for message in plain]
        header = [(ID_HEADER, frame(schema_id))]
        nothing: tuple[Headers | None, ...] = (None,) * len(plain)
        forms = {
            "single-object": (plain_parser, make_polls(plain, nothing)),
            "in front": (asking, make_polls(framed, nothing)),
            "in a header": (asking, make_polls([m[PREFIX:] for m in plain], (header,) * len(plain))),
        }
        seconds = time_forms(forms)
        rates = {name: POLLS * len(plain) / taken for name, taken in seconds.items()}
        for name, target in (("in front", "≥ 0.95×"), ("in a header", "")):
            what = f"{label}, schema id {name}, against single-object messages"
            figures = f"{rates[name] / 1e3:,.0f} k against {rates['single-object'] / 1e3:,.0f} k messages a second"
            print(f"| {what} | {rates[name] / rates['single-object']:.2f}× ({figures}) | {target} |", flush=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    collection = Collection(name="commute", low=0, high=180, unit="minutes", epsilon=1.0)
    with tempfile.TemporaryDirectory() as folder, Registry(Path(folder)) as running:
        measure(registry_in(running.url, None), collection)


if __name__ == "__main__":
    main()
