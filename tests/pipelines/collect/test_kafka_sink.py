"""The topic as a sink: nothing that the collector accepts is a message that a broker of default settings refuses."""

import asyncio

import numpy as np
import pytest
from confluent_kafka import KafkaError

from hushgram.pipelines.collect import kafka_sink
from hushgram.pipelines.collect.bodies import LARGEST_WHOLE
from hushgram.pipelines.collect.kafka_sink import KafkaSink
from hushgram.schemas.avro_schemas import REPORT_BATCH
from hushgram.schemas.messages import decode_message, encode_message
from tests.helpers.collectors import FILE, InProcess, count_reports, make_message, make_row
from tests.helpers.reports import encode_avro_file

BROKERS_DEFAULT = 1_048_588
"""`message.max.bytes`, of a batch of records."""
OVERHEAD = 61 + 32
"""Of such a batch, and of the record in it."""


class DefaultBroker:
    """In place of the client: refuses what a broker of default settings does."""

    def __init__(self):
        self.messages, self.reports = [], []

    def produce(self, _, value, on_delivery):
        if len(value) + OVERHEAD > BROKERS_DEFAULT:
            self.reports.append((on_delivery, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)))
        else:
            self.messages.append(value)
            self.reports.append((on_delivery, None))

    def poll(self, _):
        for on_delivery, error in self.reports:
            on_delivery(error, None)
        self.reports = []

    def purge(self):
        pass


@pytest.fixture
def broker(monkeypatch):
    broker = DefaultBroker()
    monkeypatch.setattr(kafka_sink, "producer", lambda *_, **__: broker)
    return broker


def make_batch(size, **changes):
    """Reports of one byte each."""
    cells = np.random.default_rng(size).integers(0, 30, size, dtype=np.uint8)
    return {**make_row(1), "cells": cells.tobytes(), "ids": None, **changes}


def test_a_batch_under_one_id_that_no_broker_would_take_is_refused_and_holds_up_nobody(broker):
    collector = InProcess()
    collector.intake.sink = KafkaSink("reports", {}, None)
    large, largest, without_id = (
        make_batch(size, id=own)
        for size, own in ((LARGEST_WHOLE + 1, b"l" * 16), (LARGEST_WHOLE, b"m" * 16), (10**6, None))
    )

    async def work():
        return await asyncio.gather(
            collector.post(encode_message(REPORT_BATCH, large)),
            collector.post(encode_message(REPORT_BATCH, largest)),
            collector.post(encode_message(REPORT_BATCH, without_id)),
            collector.post(make_message(2)),
            collector.post(encode_avro_file([large, make_batch(3)], REPORT_BATCH), FILE),
        )

    (refused, why), *others = collector.run(work)
    assert (refused, why["refusals"][0]["reason"], why["refusals"][0]["reports"]) == (
        400,
        "too_large",
        LARGEST_WHOLE + 1,
    )
    assert "under one id" in why["refusals"][0]["detail"]
    assert [status for status, _ in others] == [202] * 4
    assert (others[-1][1]["accepted"], others[-1][1]["refused"]) == (3, LARGEST_WHOLE + 1)
    kept = count_reports([decode_message(message)[1] for message in broker.messages])
    assert kept.total() == LARGEST_WHOLE + 10**6 + 1 + 3
    assert collector.intake.away is None
