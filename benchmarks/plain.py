"""The plain pipeline that a stream is measured against: `python -m benchmarks.plain ADDRESS TOPIC COLLECTIONS OUTPUT`.

The same source, then one element for each report: decoded, stamped, windowed, combined by key. Each pane writes a file
whose name holds the number of reports that it adds.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import trigger, window

from benchmarks.batch import CountCells
from hushgram import load_collections
from hushgram.pipelines.runners import for_stream
from hushgram.schemas.messages import decode_message
from hushgram.transforms.kafka_client import first_offsets
from hushgram.transforms.sources.kafka import ReadKafka
from hushgram.transforms.sources.message_batch import MessageBatch


def decode_reports(poll: MessageBatch) -> Iterator[Any]:
    for message in poll.messages:
        _, report = decode_message(message or b"")
        yield window.TimestampedValue((report["group"] or "", report["cell"]), report["event_time"] / 1000)


def write_count(element: tuple[str, Any], output: str) -> None:
    if element[1].sum():
        Path(output, f"{element[1].sum()}-{secrets.token_hex(8)}").touch()


def main(argv: Sequence[str]) -> None:
    address, topic, collections, output, *beam_arguments = argv
    [collection] = load_collections(collections).values()
    properties = {"bootstrap.servers": address, "group.id": "plain"}
    offsets = first_offsets(topic, properties, None, latest=False)
    pipeline = beam.Pipeline(options=PipelineOptions(for_stream(beam_arguments)[1]))
    (
        pipeline
        | ReadKafka(topic, offsets, properties, None, collection.windows.max_delay, together=False)
        | "Reports" >> beam.FlatMap(decode_reports).with_output_types(tuple[str, int])
        | beam.WindowInto(
            window.FixedWindows(86_400),
            trigger=trigger.AfterWatermark(early=trigger.AfterProcessingTime(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        | beam.CombinePerKey(CountCells(collection.mechanism.cells))
        | "Keep" >> beam.Map(write_count, output)
    )
    pipeline.run().wait_until_finish()


if __name__ == "__main__":
    # By its name, so that workers find the functions in the module and not in this script.
    from benchmarks import plain

    plain.main(sys.argv[1:])
