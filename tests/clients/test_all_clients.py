"""What holds of every client, in whatever language: asked as `hushgram conform` asks, one process for all questions."""

import json

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, is_empty
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hushgram.beam as hg
from hushgram import Collection, Device
from hushgram.mechanisms import MECHANISMS
from hushgram.pipelines.cli import command
from hushgram.pipelines.conform.program import Program
from hushgram.schemas.messages import decode_message
from tests.helpers.clients import CLIENTS, ask_for_messages, reference
from tests.helpers.reports import START, encode_avro_file
from tests.helpers.tools import run_or_skip

REPORTS = 20_000


@pytest.fixture(scope="module", params=CLIENTS)
def client(request):
    with Program(run_or_skip(CLIENTS[request.param]), seconds=120.0) as program:
        yield program


def test_it_conforms(client, capsys):
    """All vectors, reports of all laws, and messages; a client that keeps the law fails once in a million times."""
    assert command.main(["conform", "--draws", "2000", "--", *client.command]) == 0, capsys.readouterr().out


@st.composite
def questions(draw):
    """A manifest of any kind, values anywhere, and a script of draws that its law can ask for."""
    mechanism = draw(st.sampled_from(sorted(MECHANISMS)))
    kind = MECHANISMS[mechanism]
    scale = "linear" if kind.mean_only else draw(st.sampled_from(["linear", "log"]))
    integer = scale == "linear" and kind.takes_integers and draw(st.booleans())
    low = draw(st.integers(-1000, 1000)) if integer else draw(st.floats(1e-3, 1e6))
    high = low + 63 if integer else low * draw(st.floats(1.01, 1e9))
    collection = Collection(
        name=draw(st.text("aä€😀 ", min_size=1, max_size=5).filter(str.strip)),
        **{"low": low, "high": high, "scale": scale, "integer": integer},
        epsilon=draw(st.floats(0.01, 12.0)),
        buckets=64,
        mechanism=mechanism,
        device=Device(draw(st.floats(12.0, 1e6)), draw(st.integers(1, 10**9))),
    )
    anywhere = st.floats(allow_nan=False, allow_infinity=False)
    value = draw(anywhere | st.floats(0, 1).map(lambda share: low + share * (high - low)))
    return collection, value, draw(st.randoms(use_true_random=False))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(question=questions())
def test_it_agrees_with_the_reference_on_any_manifest_value_and_draws(client, question):
    collection, value, random = question
    manifest = json.loads(json.dumps(collection.manifest()))
    draws = []

    def below(limit):
        draws.append([str(limit), str(random.choice([0, limit - 1, random.randrange(limit)]))])
        return int(draws[-1][1])

    checked = reference.load(manifest)
    checked.cell(checked.position(value), below)
    request = {"manifest": manifest, "value": repr(value), "draws": draws, "time": START + 1, "id": "0f" * 16}
    assert client.ask(request) == reference.answer(request, {})


COMMUTE = Collection(name="commute", low=0, high=180, buckets=64, epsilon=2.0, groups=["DE"], estimator="em")
VALUES = np.round(np.random.default_rng(3).gamma(4, 9, REPORTS), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("together", "as_files"), [(1, False), (100, True)], ids=str)
def test_its_reports_are_counted_and_estimated(client, together, as_files, tmp_path):
    """The mean is off by 4 standard errors, or the fit is that bad, once in 5,000 times."""
    values = VALUES[::together]
    messages = list(ask_for_messages(client, COMMUTE, values, "DE", START + 1, together))
    with beam.Pipeline() as pipeline:
        if as_files:
            definition, records = decode_message(messages[0])[0], [decode_message(message)[1] for message in messages]
            (tmp_path / "reports.avro").write_bytes(encode_avro_file(records, definition))
            reports = pipeline | hg.ReadReports(tmp_path / "reports.avro")
        else:
            reports = pipeline | beam.Create(messages)
        snapshots, _, dead_letters = reports | hg.AggregateReports([COMMUTE])
        snapshots | hg.WriteSnapshots(tmp_path / "results")
        assert_that(dead_letters, is_empty())
    [snapshot] = [one for one in hg.read_snapshots(tmp_path / "results") if one.key.group == "DE"]
    assert (snapshot.reports, snapshot.key.window_start) == (REPORTS, START)
    low, high = snapshot.interval("mean")
    assert abs(snapshot.mean - values.mean()) < 2 * (high - low) / 2
    assert snapshot.fit_pvalue > 1e-4
