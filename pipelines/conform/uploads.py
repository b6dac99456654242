"""The third part of the examination: messages as the client sends them, with its own clock and its own ids."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from hushgram.pipelines.conform.free_draws import Question
from hushgram.pipelines.conform.program import Program
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.container import DamagedError
from hushgram.schemas.messages import decode_message
from hushgram.schemas.window_key import milliseconds

UPLOADS = 200
"""Of each process."""
MOST_FIXED_BITS = 16
"""Of the 128 bits of an id; a random UUID fixes six."""
BIT_ODDS = 1e-11
CLOCK_MARGIN_MS = 60_000


@dataclass(frozen=True)
class UploadsResult:
    """What is wrong with the messages; `offered` is false if the client does not make any on request."""

    offered: bool
    uploads: int
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.faults


def examine_uploads(programs: Sequence[Program], question: Question) -> UploadsResult:
    """Messages of all processes: of the schema, no finer in time than the manifest asks for, with random ids."""
    started = time.time_ns() // 1_000_000
    messages = []
    for program in programs:
        manifest = {"manifest": question.manifest}
        for _ in range(UPLOADS):
            answer = program.ask({**manifest, "value": question.values[0][0], "upload": True})
            if "upload" not in answer:
                return UploadsResult(False, 0, ())
            messages.append(str(answer["upload"]))
            manifest = {}
    ended = time.time_ns() // 1_000_000
    return UploadsResult(True, len(messages), tuple(_faults(messages, question, started, ended)))


def _faults(messages: Sequence[str], question: Question, started: int, ended: int) -> Iterator[str]:
    try:
        decoded = [decode_message(bytes.fromhex(message)) for message in messages]
    except (DamagedError, ValueError) as error:
        yield f"a message that cannot be read: {error}"
        return
    records, manifest = [record for _, record in decoded], question.manifest
    if any(definition is not REPORT for definition, _ in decoded):
        yield "a message that is no Report"
        return
    wanted = (manifest["collection"], manifest["revision"], None)
    if any((one["collection"], one["revision"].hex(), one["group"]) != wanted for one in records):
        yield "a report of another collection, revision or group than was asked for"
    if not all(0 <= one["cell"] < int(manifest["law"]["cells"]) for one in records):
        yield "a report of a cell that there is none of"
    length, first = manifest["slice_ms"], manifest["slice_first_ms"]
    times = [milliseconds(one["event_time"]) for one in records]
    if any((moment - first) % length for moment in times):
        yield f"event times that are not cut to slices of {length} ms"
    elif not all(started - length - CLOCK_MARGIN_MS < moment <= ended + CLOCK_MARGIN_MS for moment in times):
        yield "event times that are not those of now"
    ids = [one["id"] for one in records]
    if None in ids or len(set(ids)) < len(ids):
        yield "messages without an id, or with that of another: duplicates are counted once"
    elif fixed_bits(ids) > MOST_FIXED_BITS:
        yield f"{fixed_bits(ids)} of the 128 bits of ids are not random: they could tell devices apart"


def fixed_bits(ids: Sequence[bytes]) -> int:
    """How many bits are not as often 1 as 0. Of random bits none is counted, but for once in a hundred million times.

    >>> fixed_bits([bytes(8) + bytes([k] * 8) for k in range(256)])
    64
    """
    bits = np.unpackbits(np.frombuffer(b"".join(ids), dtype=np.uint8).reshape(len(ids), -1), axis=1)
    ones = bits.sum(axis=0, dtype=np.int64)
    fewer = np.minimum(ones, len(ids) - ones)
    return int((2 * stats.binom.cdf(fewer, len(ids), 0.5) < BIT_ODDS).sum())
