"""Messages that name their schema by an id, read, against single-object messages: `python -m benchmarks.framing`.

The same reports in topics of a real broker, with ids of a real schema registry. What the source does with a poll that a
client has fetched counts, and what the parser does: until its reports are decoded, judged and ready to be counted. The
fetching is not in it. All take turns in this process; of each the fastest round counts.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import io
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema

from benchmarks.streams import encode_messages
from devtools import Broker, Registry
from hushgram import Collection
from hushgram.pipelines.cli.registry import connect, registry_in
from hushgram.pipelines.schemas import register
from hushgram.schemas.avro_schemas import REPORT, REPORT_BATCH, Definition
from hushgram.schemas.framing import ID_HEADER, frame
from hushgram.schemas.messages import PREFIX, decode_message
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.kafka_client import consumer
from hushgram.transforms.parsing import Parser
from hushgram.transforms.schema_registry import SchemaRegistry
from hushgram.transforms.sources.kafka_polls import received, sorted_out
from hushgram.transforms.sources.kafka_positions import Position, Positions
from hushgram.transforms.uploads import Uploads

ROUNDS = 10
POLLS = 20
SINGLE, BATCHES = 10_000, 700
"""Messages of a poll."""
MANY = {"linger.ms": 50, "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 1 << 20}
FIELD = {"name": "battery", "type": ["null", "int"], "default": None}
"""What an evolved schema has more."""


@dataclass(frozen=True)
class Form:
    """A topic of messages in one form, and how they are read."""

    topic: str
    count: int
    poll: int
    headers: bool
    parser: Parser

    def fetch(self, client: Any) -> list[list[Any]]:
        """All its messages, as the client hands them out, in polls."""
        from confluent_kafka import TopicPartition

        client.assign([TopicPartition(self.topic, 0, 0)])
        messages: list[Any] = []
        while len(messages) < self.count:
            messages += [message for message in client.consume(self.count - len(messages), 1.0) if not message.error()]
        return [messages[start : start + self.poll] for start in range(0, self.count, self.poll)]

    def read(self, messages: Sequence[Any]) -> None:
        """What source and parser do with them."""
        taken = sorted_out(self.topic, messages)
        for _, _, batches in received(self.topic, taken, Positions("", {0: Position(0)}), self.headers):
            for batch in batches:
                assert batch.size
                assert all(isinstance(outcome, Uploads) for outcome in self.parser.parse(batch))


def time_forms(forms: dict[str, Form], client: Any) -> dict[str, float]:
    """The seconds of each form's fastest round."""
    seconds = dict.fromkeys(forms, float("inf"))
    for _ in range(ROUNDS):
        for name, form in forms.items():
            # A message that was looked at keeps what was found: so each is fetched anew.
            polls = form.fetch(client)
            start = time.perf_counter()
            while polls:  # one that was read is given up, as in a stream
                form.read(polls.pop())
            seconds[name] = min(seconds[name], time.perf_counter() - start)
    return seconds


def evolve(messages: Sequence[bytes], definition: Definition, text: str) -> list[bytes]:
    """The records of messages as a newer producer writes them."""
    schema, evolved = fastavro.parse_schema(json.loads(text)), []
    for message in messages:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, {**decode_message(message)[1], "battery": 3})
        evolved.append(stream.getvalue())
    return evolved


def make_forms(
    broker: Broker, registry: SchemaRegistry, index: CollectionIndex, definition: Definition, plain: list[bytes]
) -> dict[str, Form]:
    """Topics with the same reports in each form."""
    client = connect(registry)
    own = frame(register(client, definition)[-1])
    schema = json.loads(definition.text)
    text = json.dumps({**schema, "fields": [*schema["fields"], FIELD]})
    newer = frame(client.client.register_schema(definition.name, Schema(text, "AVRO")))
    bodies, header = [message[PREFIX:] for message in plain], [(ID_HEADER, own)]
    asking = Parser(index, registry=registry)

    def form(name: str, messages: list[bytes], parser: Parser, headers: list[Any] | None = None) -> Form:
        topic = broker.create_topic(f"{definition.name}-{name}")
        producer = Producer({"bootstrap.servers": broker.address, **MANY})
        for message in messages * POLLS:
            producer.produce(topic, message, headers=headers)
        assert producer.flush(60) == 0
        return Form(topic, POLLS * len(messages), len(messages), parser is asking, parser)

    return {
        "single-object": form("plain", plain, Parser(index)),
        "single-object, with a registry": form("beside", plain, asking),
        "in front": form("framed", [own + body for body in bodies], asking),
        "in a header": form("named", bodies, asking, header),
        "in front, of an evolved schema": form(
            "evolved", [newer + body for body in evolve(plain, definition, text)], asking
        ),
    }


TARGETS = {"in front": "≥ 0.95×"}


def measure(broker: Broker, registry: SchemaRegistry, collection: Collection) -> None:
    index = CollectionIndex.of([collection])
    client = consumer({"bootstrap.servers": broker.address, "group.id": "benchmark"})
    print("| what | measured | target |\n|---|---|---|")
    for label, definition, count, packed in (
        ("single reports", REPORT, SINGLE, False),
        ("batches of 1000 reports", REPORT_BATCH, BATCHES * 1000, True),
    ):
        plain = encode_messages(collection, count, packed=packed, ids=False)
        seconds = time_forms(make_forms(broker, registry, index, definition, plain), client)
        rates = {name: POLLS * len(plain) / taken for name, taken in seconds.items()}
        base = rates.pop("single-object")
        for name, rate in rates.items():
            what = name if name.startswith("single") else f"schema id {name}"
            figures = f"{rate / 1e3:,.0f} k against {base / 1e3:,.0f} k messages a second"
            target = TARGETS.get(name, "")
            print(f"| {label}, {what}, against single-object messages | {rate / base:.2f}× ({figures}) | {target} |")
    client.close()


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    collection = Collection(name="commute", low=0, high=180, unit="minutes", epsilon=1.0)
    with (
        tempfile.TemporaryDirectory() as folder,
        Registry(Path(folder) / "registry") as running,
        Broker(Path(folder) / "kafka") as broker,
    ):
        measure(broker, registry_in(running.url, None), collection)


if __name__ == "__main__":
    main()
