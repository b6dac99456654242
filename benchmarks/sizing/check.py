"""The arithmetic held against simulated runs of the product's code, in this process: predicted beside seen.

Three runs: a minute of the busiest hour through what reads, tallies and removes duplicates, call by call; windows with
early, on-time and late panes through the whole stream on a clock that is played; and report files of some windows
through `hushgram aggregate`. Groups and windows are cut to a few: each is estimated.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.coders import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from benchmarks.sizing.costs import Costs, FakeBag, FakeState, FakeTimer
from benchmarks.sizing.load import BUNDLE, DAY, Load
from benchmarks.sizing.sizes import SEED, START, coder_of, messages_of, sizes, tally_bytes
from benchmarks.sizing.tables import Table, amount
from hushgram import Windows
from hushgram.pipelines import aggregate
from hushgram.pipelines.simulate.command import write_reports
from hushgram.pipelines.simulate.devices import simulate_devices
from hushgram.pipelines.simulate.shapes import draw_for
from hushgram.schemas.records import Series
from hushgram.transforms.aggregate import AggregateReports
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.counting import IDENTIFIED, ParseAndTally
from hushgram.transforms.deduplication import DeduplicateStream, grain_ms
from hushgram.transforms.parsing import Parser
from hushgram.transforms.seen_ids import SeenIds
from hushgram.transforms.sinks.result_files import WriteHistograms, WriteSnapshots
from hushgram.transforms.sources.message_batch import MessageBatch
from hushgram.transforms.tallies import Tallies, encode
from hushgram.transforms.windowing import window_fn

FEW_GROUPS = 3
FEW_WINDOWS = 6
SECONDS = 60
CALLS_AT_MOST = 2000
MESSAGES_AT_MOST = 200_000
FEWEST_REPORTS, MOST_REPORTS = 10_000, 1_000_000
PANES = Windows(size=60_000, every=60_000, max_delay=2_000, max_age=120_000, early=15_000)
PANES_WINDOWS = 2
PANES_UPLOADS = 3
"""A second, in the run on a played clock."""


@dataclass(frozen=True)
class Line:
    """One quantity, predicted and seen. An exact one must be the same; another differs by chance, or by the clock."""

    what: str
    predicted: float
    seen: float
    exact: bool = False

    @property
    def ratio(self) -> float:
        return self.seen / self.predicted if self.predicted else float(self.seen == 0)


def table(lines: Sequence[Line]) -> Table:
    rows = [[line.what, amount(line.predicted), amount(line.seen), _ratio(line)] for line in lines]
    return "The arithmetic against simulated runs", ["", "predicted", "seen", "seen / predicted"], rows


def _ratio(line: Line) -> str:
    return "exact" if line.exact and line.seen == line.predicted else f"{line.ratio:.3f}"


def lines_of(load: Load, costs: Costs, report: Callable[[str], None] = lambda _: None) -> list[Line]:
    """All runs for a load."""
    small = replace(load, collection=replace(load.collection, groups=load.collection.groups[:FEW_GROUPS]))
    report("calls of sources")
    lines = calls(small)
    report("panes on a played clock")
    lines += panes(small)
    report("report files")
    return lines + files(small, costs)


# Calls of sources ----------------------------------------------------------------------------------------------------


@dataclass
class StageOutput:
    """Elements that leave a stage, and their bytes."""

    coder: coders.WindowedValueCoder
    elements: int = 0
    bytes: int = 0

    def add(self, element: Any, timestamp: Any, windows: Any) -> None:
        self.elements += 1
        self.bytes += len(self.coder.encode(WindowedValue(element, timestamp, windows)))


def calls(load: Load) -> list[Line]:
    """Every call of every partition for some time, a bundle for each; as many messages as are due, in any of them."""
    seconds = min(SECONDS, CALLS_AT_MOST / load.calls, MESSAGES_AT_MOST / load.messages)
    number = max(1, round(seconds * load.calls))
    span = number / load.calls
    message_count = max(1, round(load.messages * span))
    rng, windows = np.random.default_rng(SEED + 1), window_fn(load.windows)
    partials = StageOutput(coder_of(tuple[Series, Tallies], windows.get_window_coder()))
    shards = StageOutput(coder_of(tuple[int, bytes], GlobalWindows().get_window_coder()))
    reading, deduplication = ParseAndTally(Parser(CollectionIndex.of([load.collection]))), DeduplicationStage(load)
    message_bytes = 0
    total = Tallies()

    def emit(outputs: Sequence[Any]) -> None:
        for output in outputs:
            (key, tallies), timestamp = output.value.value, output.value.timestamp
            partials.add((key, tallies), timestamp, tuple(windows.assign(WindowFn.AssignContext(timestamp))))
            if key.group is None:
                total.add(tallies)

    for call, count in enumerate(rng.multinomial(message_count, np.full(number, 1 / number)).tolist()):
        messages = _messages(load, count, rng)
        message_bytes += sum(map(len, messages))
        outputs = _bundle(
            reading, [MessageBatch("t[0]", None, np.full(count, START), tuple(messages))] if count else []
        )
        for output in outputs:
            if output.tag == IDENTIFIED:
                shards.add(output.value.value, output.value.timestamp, (GlobalWindow(),))
                deduplication.take(call / load.calls, output.value.value)
        emit([output for output in outputs if output.tag != IDENTIFIED])
        emit(deduplication.until((call + 1) / load.calls))
    emit(deduplication.until(float("inf")))
    load_sizes = sizes(load)
    lines = [
        Line(f"reports of {span:.3g} s, tallied", message_count * load.batch, total.reports, exact=True),
        Line("bytes of their messages", message_count * load_sizes.message, message_bytes),
        Line("partial tallies shuffled", load.all_partials * span, partials.elements),
        Line("their bytes", load.all_partials * span * load_sizes.partial, partials.bytes),
        Line("bytes of the tally of all", tally_bytes(load.collection, total.reports), len(encode(total))),
    ]
    if load.ids:
        lines += [
            Line("blocks of ids shuffled", load.pieces * span, shards.elements),
            Line("their bytes", load.pieces * span * load_sizes.piece, shards.bytes),
            Line("ids kept", message_count, deduplication.kept, exact=True),
            Line("bytes of ids kept", message_count * load_sizes.id_kept, deduplication.kept_bytes),
        ]
    return lines


class DeduplicationStage:
    """The stage that counts ids once: each slot has its shards, and a bundle of some time."""

    def __init__(self, load: Load) -> None:
        self.load, self.slots = load, load.slots
        self.stage = DeduplicateStream(CollectionIndex.of([load.collection]))
        self.states: dict[int, tuple[FakeState, FakeBag]] = {}
        self.waiting: dict[tuple[int, int], list[tuple[int, bytes]]] = {}

    def take(self, seconds: float, piece: tuple[int, bytes]) -> None:
        self.waiting.setdefault((int(seconds / BUNDLE), piece[0] % self.slots), []).append(piece)

    def until(self, seconds: float) -> list[Any]:
        """The output of the bundles that are over by then."""
        finished = [bundle for bundle in self.waiting if (bundle[0] + 1) * BUNDLE <= seconds]
        return [output for bundle in finished for output in self._run(self.waiting.pop(bundle))]

    def _run(self, pieces: Sequence[tuple[int, bytes]]) -> list[Any]:
        arguments = [
            (piece, *self.states.setdefault(piece[0], (FakeState(b""), FakeBag())), FakeTimer()) for piece in pieces
        ]
        return _bundle(self.stage, arguments, unpack=True)

    @property
    def kept_bytes(self) -> int:
        return sum(len(chunk) for _, bag in self.states.values() for chunk in bag.chunks)

    @property
    def kept(self) -> int:
        return sum(len(SeenIds(grain_ms(0), bag.chunks)) for _, bag in self.states.values())


def _bundle(stage: Any, elements: Sequence[Any], unpack: bool = False) -> list[Any]:
    """The output of a stage for a bundle, as windowed values."""
    stage.start_bundle()
    outputs = [
        output for element in elements for output in (stage.process(*element) if unpack else stage.process(element))
    ]
    return outputs + list(stage.finish_bundle())


def _messages(load: Load, count: int, rng: np.random.Generator) -> list[bytes]:
    """Messages whose events were just now, or, where they are late, some time ago."""
    late = int(rng.binomial(count, load.late))
    ages = rng.integers(0, max(1, load.windows.max_age - 1000), late)
    on_time = messages_of(load, count - late, rng) if count > late else []
    return on_time + [message for age in ages.tolist() for message in messages_of(load, 1, rng, START - age)]


# Panes ---------------------------------------------------------------------------------------------------------------


def panes(load: Load) -> list[Line]:
    """The whole stream on a clock that is played: windows of a minute, and a call every two or three seconds."""
    load_of_clock = replace(
        load,
        collection=replace(load.collection, windows=PANES, minimum_reports=0),
        devices=round(PANES_UPLOADS * load.batch * DAY),
        reports_per_device=1.0,
        late=0.2,
        peak=1.0,
        partitions=2,
        cycle=5.0,
        ids=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        with beam.Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as pipeline:
            results = pipeline | _script(load_of_clock) | AggregateReports([load_of_clock.collection])
            results.snapshots | WriteSnapshots(folder)
            results.histograms | WriteHistograms(folder)
        names = [path.stem for path in Path(folder, "snapshots").glob("*/*.avro")]
        file_count = sum(1 for _ in Path(folder).glob("*/*/*.avro"))
    keys = [(False, 1), (True, load_of_clock.groups)] if load_of_clock.groups else [(False, 1)]
    predicted = {
        "early": sum(number * load_of_clock.early_panes(of_group) for of_group, number in keys),
        "on_time": float(load_of_clock.keys),
        "late": sum(number * load_of_clock.late_panes(of_group) for of_group, number in keys),
    }
    counts = {timing: sum(name.endswith(f"-{timing}") for name in names) for timing in predicted}
    return [
        *(
            Line(f"{timing.replace('_', '-')} panes of {PANES_WINDOWS} windows", PANES_WINDOWS * number, counts[timing])
            for timing, number in predicted.items()
        ),
        Line("files of these panes", 2 * PANES_WINDOWS * sum(predicted.values()), file_count),
    ]


def _script(load: Load) -> TestStream:
    """Second by second: perhaps a call with all that came since the last, the watermark behind it, the clock.

    Late uploads come when their window is over.
    """
    rng, size, delay = np.random.default_rng(SEED + 2), load.windows.size, load.windows.max_delay
    end = PANES_WINDOWS * size
    events = rng.integers(0, end, round(load.messages * end / 1000))
    late = rng.random(events.size) < load.late
    ends = (events // size + 1) * size
    events[late] = ends[late] - 1
    waits = rng.integers(delay, load.windows.max_age, events.size)
    arrivals = np.where(late, ends + waits, events)
    last = max(end, int(arrivals.max())) // 1000 + 1
    stream = TestStream().advance_processing_time(START // 1000).advance_watermark_to(_timestamp(START - delay))
    read_until = 0
    for second in range(1, last + 2 * load.pause):  # beyond the last, until every pane has fired
        now = START + 1000 * second
        if rng.random() < load.calls or second == last:
            arrived = np.flatnonzero((arrivals >= read_until) & (arrivals < 1000 * second))
            messages = [message for event in events[arrived].tolist() for message in _message(load, START + event, rng)]
            if messages:
                poll = MessageBatch("t[0]", None, np.full(arrived.size, now), tuple(messages))
                stream = stream.add_elements([TimestampedValue(poll, _timestamp(now))])
            read_until = 1000 * second
            stream = stream.advance_watermark_to(_timestamp(now - delay))
        stream = stream.advance_processing_time(1)
    return stream.advance_watermark_to_infinity()


def _message(load: Load, event: int, rng: np.random.Generator) -> list[bytes]:
    return messages_of(load, 1, rng, event, within=1)


def _timestamp(milliseconds: int) -> Timestamp:
    return Timestamp(micros=1000 * milliseconds)


# Report files --------------------------------------------------------------------------------------------------------


def files(load: Load, costs: Costs) -> list[Line]:
    """The reports of some windows, one by one, as files, through `hushgram aggregate`."""
    windows, collection = load.windows, load.collection
    span = min(DAY, FEW_WINDOWS * windows.every / 1000)
    reports = round(min(max(load.reports_a_day * span / DAY, FEWEST_REPORTS), MOST_REPORTS))
    rng = np.random.default_rng(SEED)
    times = windows.holding(START)[0][0] + rng.integers(0, int(1000 * span), reports)
    devices = simulate_devices(collection, draw_for(collection, "beta(5,2)"), times, rng)
    with tempfile.TemporaryDirectory() as folder:
        inputs, output = Path(folder, "reports"), Path(folder, "results")
        inputs.mkdir()
        write_reports(inputs, collection, devices, False, rng if load.ids else None)
        pattern, as_of = str(inputs / "*.avro"), int(times.max()) + 1
        job = aggregate.BatchJob(CollectionIndex.of([collection]), (pattern,), str(output), run="sizing", as_of=as_of)
        start = time.process_time()
        with beam.Pipeline(options=PipelineOptions(["--runner=FnApiRunner"])) as pipeline:
            aggregate.build(pipeline, job, aggregate.plan_run(job))
        seconds = time.process_time() - start
        counters: Counter[str] = Counter()
        for counter in pipeline.result.metrics().query()["counters"]:
            counters[counter.key.metric.name] += counter.committed
        file_count = sum(1 for kind in ("snapshots", "histograms") for _ in (output / kind).glob("*/*.avro"))
    number = -(-int(1000 * span) // windows.every) - (-windows.size // windows.every) - 1
    predicted = reports * costs.message + number * load.keys * costs.estimate_together
    lines = [
        Line("reports read from files", reports, counters["read"], exact=True),
        Line("reports accepted", reports, counters["accepted"], exact=True),
        Line("windows estimated, of all keys", number * load.keys, counters["estimated"], exact=True),
        Line("files of results", 2 * number, file_count, exact=True),
    ]
    # The cost of a packed message does not determine that of single reports.
    return [*lines, Line("seconds of one core, with Beam's own", predicted, seconds)] if load.batch == 1 else lines
