"""Early panes start from one another; what is recorded does not depend on them."""

from dataclasses import replace
from importlib import import_module

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2 as api
from apache_beam.testing.test_pipeline import TestPipeline as Pipeline
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.transforms.userstate import get_dofn_specs
from apache_beam.utils.timestamp import Timestamp

from hushgram import Collection, Windows
from hushgram.estimators.log_spline.search import fit
from hushgram.estimators.log_spline.warm_start import LARGEST
from hushgram.quantile_shares import STANDARD_SHARES
from hushgram.schemas.records import Key
from hushgram.transforms.collection_index import CollectionIndex
from hushgram.transforms.counting import in_branch
from hushgram.transforms.estimation import EstimateBundle, EstimateStream, EstimateWindows
from hushgram.transforms.tallies import Tallies
from hushgram.transforms.windowing import PaneOfWindow, allowed_lateness
from tests.helpers.timers import FakeTimer

HOUR, START = 3_600_000, 1_767_225_600_000
SPLINE = Collection(name="spline", low=0, high=1, buckets=128, epsilon=1.0, estimator="log_spline")
PLAIN = Collection(name="plain", low=0, high=1, buckets=128, epsilon=1.0)
INDEX = CollectionIndex.of([SPLINE, PLAIN])
TIMINGS = ("early", "early", "early", "on_time", "late", "late")


def make_panes(collection, timings=TIMINGS, reports=60_000, start=START):
    """The panes of one window: equally many reports come before each."""
    cells = collection.mechanism.forward(np.diff(np.linspace(0, 1, 129) ** 2))
    rng = np.random.default_rng(1)
    counts = np.cumsum([rng.multinomial(reports // len(timings), cells / cells.sum()) for _ in timings], axis=0)
    key = Key(collection.name, None, start, start + HOUR)
    return [
        (key, (index, timing, Tallies({collection.revision: (int(row.sum()), row)})))
        for index, (timing, row) in enumerate(zip(timings, counts, strict=True))
    ]


class FakeState:
    value = None

    def read(self):
        return self.value

    def write(self, value):
        self.value = value

    def clear(self):
        self.value = None


def estimate_one_by_one(panes, loses=lambda index: False):
    """The snapshots of panes, each in a bundle of its own, and the state after each."""
    fn, state, timer, found, states = EstimateStream(INDEX, 0), FakeState(), FakeTimer(), [], []
    for index, pane in enumerate(panes):
        if loses(index):
            state.clear()
        fn.start_bundle()
        found += [snapshot for snapshot, _ in fn.process(pane, state, timer)]
        found += [value.value[0] for value in fn.finish_bundle()]
        states.append(state.value)
    return found, states, timer


def estimate_from_scratch(panes):
    fn = EstimateBundle(INDEX, 0)
    fn.start_bundle()
    assert [*map(list, map(fn.process, panes))] == [[]] * len(panes)
    return [value.value[0] for value in fn.finish_bundle()]


@pytest.mark.parametrize("estimator", ["ems", "log_spline"])
def test_every_pane_has_the_quantiles_of_the_collection(estimator):
    collection = replace(PLAIN, estimator=estimator, quantiles=(0.5, 0.999, 0.0001))
    fn, state, timer = EstimateStream(CollectionIndex.of([collection]), 0), FakeState(), FakeTimer()
    fn.start_bundle()
    panes = make_panes(collection, TIMINGS[:4])
    found = [snapshot for pane in panes for snapshot, _ in fn.process(pane, state, timer)]
    found += [value.value[0] for value in fn.finish_bundle()]
    assert len(found) == 4
    for snapshot in found:
        shares = [quantile.share for quantile in snapshot.quantiles]
        assert shares == [0.0001, *STANDARD_SHARES, 0.999]
        assert [quantile.value for quantile in snapshot.quantiles] == snapshot.quantile(shares).tolist()


def distance(snapshot, other):
    return np.abs(np.cumsum(snapshot.probabilities - other.probabilities)).max()


def test_early_panes_start_from_the_one_before_and_no_others_do():
    panes = make_panes(SPLINE, reports=120_000)
    warm, states, timer = estimate_one_by_one(panes)
    cold = estimate_from_scratch(panes)
    assert [snapshot.pane for snapshot in warm] == [snapshot.pane for snapshot in cold]
    assert warm[0].to_avro() == cold[0].to_avro()
    for index in (1, 2):
        assert warm[index].iterations < cold[index].iterations
        assert 0 < distance(warm[index], cold[index]) <= 3e-3
    for index in (3, 4, 5):
        assert warm[index].to_avro() == cold[index].to_avro()
    assert all(state is not None and len(state) <= LARGEST for state in states[:3])
    assert states[3:] == [None] * 3
    assert set(timer.times) == {Timestamp(micros=1000 * (START + HOUR + allowed_lateness(SPLINE.windows)))}


@pytest.mark.parametrize("lost", [{1}, {2}, {0, 1, 2, 3, 4, 5}])
def test_what_is_recorded_does_not_depend_on_the_state_and_early_panes_hardly_do(lost):
    panes = make_panes(SPLINE)
    kept, _, _ = estimate_one_by_one(panes)
    losing, _, _ = estimate_one_by_one(panes, lost.__contains__)
    for one, other in zip(kept, losing, strict=True):
        if one.pane.timing == "early":
            assert distance(one, other) <= 3e-3
        else:
            assert one.to_avro() == other.to_avro()


def test_bytes_that_are_no_warm_start_are_replaced():
    fn, state = EstimateStream(INDEX, 0), FakeState()
    fn.start_bundle()
    state.value = b"\xff" * 100
    pane = make_panes(SPLINE)[2]
    [(snapshot, histogram)] = fn.process(pane, state, FakeTimer())
    assert snapshot.to_avro() == estimate_from_scratch([pane])[0].to_avro()
    assert histogram.reports == snapshot.reports == pane[1][2].reports
    assert state.value != b"\xff" * 100


def test_state_ends_with_the_on_time_pane_or_the_timer():
    fn, state, timer = EstimateStream(INDEX, 0), FakeState(), FakeTimer()
    fn.start_bundle()
    list(fn.process(make_panes(SPLINE)[0], state, timer))
    assert state.value is not None
    assert len(timer.times) == 1
    fn.forget_start(state)
    assert state.value is None


def test_a_window_that_leaves_no_warm_start_leaves_no_state():
    """Nearly all values are one number, which a smooth curve does not fit."""
    counts = SPLINE.tally(SPLINE.simulate([0.3] * 100_000, seed=1))
    key = Key("spline", None, START, START + HOUR)
    fn, state, timer = EstimateStream(INDEX, 0), FakeState(), FakeTimer()
    fn.start_bundle()
    state.value = b"old"
    list(fn.process((key, (0, "early", Tallies({SPLINE.revision: (100_000, counts)}))), state, timer))
    assert state.value is None
    assert timer.times == []


def test_panes_of_other_estimators_are_estimated_together_and_touch_no_state():
    panes, (spline, *_) = make_panes(PLAIN), make_panes(SPLINE)
    fn, state, timer = EstimateStream(INDEX, 0), FakeState(), FakeTimer()
    fn.start_bundle()
    outputs = [list(fn.process(pane, state, timer)) for pane in (*panes[:2], spline, panes[2])]
    assert [len(output) for output in outputs] == [0, 0, 1, 0]
    state.value = None
    assert [value.value[0].key.collection for value in fn.finish_bundle()] == ["plain"] * 3
    assert state.value is None


@pytest.fixture
def no_convergence(monkeypatch):
    """Fits of the log-spline whose steps do not suffice."""
    module = import_module("hushgram.estimators.log_spline")  # the package's attribute is the function

    def unconverged(basis, counts, start):
        found = fit(basis, counts, start)
        return replace(found, posterior=replace(found.posterior, converged=False))

    monkeypatch.setattr(module, "fit", unconverged)


def is_that_of_ems(snapshot, pane):
    """Whether a snapshot says that it is EMS's, and is."""
    key, (_, _, tallies) = pane
    [(_, counts)] = tallies.parts.values()
    expected = replace(SPLINE, estimator="ems").estimate(counts)
    assert key == snapshot.key
    return snapshot.estimator == "ems" and (snapshot.probabilities == expected.probabilities).all()


def test_panes_that_do_not_converge_are_those_of_ems_say_so_and_leave_no_start(no_convergence):
    panes = make_panes(SPLINE)
    for snapshots in (estimate_from_scratch(panes), estimate_one_by_one(panes)[0]):
        assert all(is_that_of_ems(*pair) for pair in zip(snapshots, panes, strict=True))
    fn, state = EstimateStream(INDEX, 0), FakeState()
    fn.start_bundle()
    state.value = b"an earlier start"
    list(fn.process(panes[1], state, FakeTimer()))
    assert state.value is None


# In a pipeline -------------------------------------------------------------------------------------------------------


class Results:
    snapshots: list = []  # noqa: RUF012


def test_a_stream_keeps_the_starts_of_its_windows_apart():
    """Two windows in turn, on a runner in this process, give what each gives alone."""
    first, second = make_panes(SPLINE), make_panes(SPLINE, reports=120_000, start=START + HOUR)
    alone = [estimate_one_by_one(panes)[0] for panes in (first, second)]
    expected = {(snapshot.key, snapshot.pane): snapshot.to_avro() for panes in alone for snapshot in panes}
    Results.snapshots = []
    stream = Stream()
    for pane in (pane for both in zip(first, second, strict=True) for pane in both):
        stream = stream.add_elements([pane])
    with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(["--streaming"])) as pipeline:
        panes = (
            pipeline
            | stream.advance_watermark_to_infinity()
            | beam.Map(lambda pane: pane).with_output_types(PaneOfWindow)
        )
        results = panes | EstimateWindows(INDEX, 0)
        results | beam.Map(lambda result: Results.snapshots.append(result[0]))
    assert {(snapshot.key, snapshot.pane): snapshot.to_avro() for snapshot in Results.snapshots} == expected
    assert len(Results.snapshots) == len(expected)


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_a_run_says_which_windows_did_not_converge(streaming, no_convergence):
    panes = make_panes(SPLINE)
    Results.snapshots = []
    stream = Stream()
    for pane in panes:
        stream = stream.add_elements([pane])
    source = stream.advance_watermark_to_infinity() if streaming else beam.Create(panes)
    arguments = ["--streaming"] if streaming else []
    with Pipeline(runner="BundleBasedDirectRunner", options=PipelineOptions(arguments)) as pipeline:
        given = pipeline | source | beam.Map(lambda pane: pane).with_output_types(PaneOfWindow)
        results = given | EstimateWindows(INDEX, 0)
        results | beam.Map(lambda result: Results.snapshots.append(result[0]))
    found = sorted(Results.snapshots, key=lambda snapshot: snapshot.pane.index)
    assert all(is_that_of_ems(*pair) for pair in zip(found, panes, strict=True))


@pytest.mark.parametrize(
    ("streaming", "collections", "with_state"),
    [
        (True, [SPLINE], True),
        (True, [SPLINE, PLAIN], True),
        (True, [PLAIN], False),
        (True, [PLAIN, replace(SPLINE, windows=Windows(size=2 * HOUR, every=2 * HOUR))], False),
        (False, [SPLINE], False),
    ],
)
def test_only_a_stream_of_an_estimator_with_warm_starts_has_state(streaming, collections, with_state):
    """Collections with other windows have a step of their own, and leave this one as it is in a savepoint."""
    pipeline = Pipeline(runner="BundleBasedDirectRunner")
    source = Stream() if streaming else beam.Create([])
    panes = pipeline | source | beam.Map(lambda pane: pane).with_output_types(PaneOfWindow)
    branch = in_branch(CollectionIndex.of(collections), str(PLAIN.windows))
    panes | "Estimates" >> EstimateWindows(branch, 0)
    [estimate] = [
        transform
        for transform in pipeline.to_runner_api().components.transforms.values()
        if transform.unique_name == "Estimates/Estimate"
    ]
    payload = api.ParDoPayload.FromString(estimate.spec.payload)
    assert bool(payload.state_specs) == bool(payload.timer_family_specs) == with_state


def test_the_state_is_one_value_and_one_timer():
    states, timers = get_dofn_specs(EstimateStream(INDEX, 0))
    assert states == {EstimateStream.START}
    assert timers == {EstimateStream.FORGET}
