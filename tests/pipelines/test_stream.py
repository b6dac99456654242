"""`hushgram stream` before anything runs: engines and their options, mistakes, and the job that is built."""

import argparse

import pytest

from hushgram.pipelines import stream
from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.runners import DATAFLOW, FLINK, PRISM, for_stream

YAML = """
collections:
  commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1, groups: [DE, FR], windows: {size: 1h, max_delay: 1m}}
  age: {domain: {low: 0, high: 63}, buckets: 64, epsilon: 1, windows: {size: 2h, every: 1h, max_delay: 5m, early: null}}
"""


@pytest.fixture
def collections(tmp_path):
    path = tmp_path / "collections.yaml"
    path.write_text(YAML)
    return str(path)


def test_options_that_flink_needs_for_exact_counts_are_set():
    engine, options = for_stream(["--runner=FlinkRunner", "--parallelism", "4"])
    assert engine is FLINK
    assert "--finish_bundle_before_checkpointing" in options
    assert "--checkpointing_interval=5000" in options
    assert "--streaming" in options
    assert options[:3] == ["--runner=FlinkRunner", "--parallelism", "4"]


def test_options_of_the_user_are_kept():
    _, options = for_stream(["--runner", "PortableRunner", "--checkpointing_interval", "20000", "--streaming"])
    assert not [option for option in options if option.startswith("--checkpointing_interval=")]
    assert options.count("--streaming") == 1
    assert for_stream([])[0] is PRISM


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        (["--runner=DirectRunner"], "PrismRunner for one machine"),
        (["--runner=FnApiRunner"], "cannot run a stream"),
        (["--runner=apache_beam.runners.direct.DirectRunner"], "cannot run a stream"),
        (["--runner=FlinkRunner", "--finish_bundle_before_checkpointing=false"], "exact"),
        (["--runner=FlinkRunner", "--checkpointing_mode", "AT_LEAST_ONCE"], "EXACTLY_ONCE"),
        (["--runner=FlinkRunner", "--checkpointing_interval=-1"], "milliseconds"),
        (["--runner=FlinkRunner", "--shutdown_sources_after_idle_ms=1"], "sources would end"),
    ],
)
def test_options_that_would_cost_exactness_are_refused(collections, tmp_path, capsys, extra, word):
    with pytest.raises(UsageError, match=word):
        for_stream(extra)
    arguments = ["--collections", collections, "--watch", str(tmp_path), "--output", str(tmp_path / "o")]
    assert command.main(["stream", *arguments, *extra]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert word in line
    assert not (tmp_path / "o").exists()


TOPIC = ["--kafka", "localhost:1", "--topic", "t"]


@pytest.mark.parametrize(
    ("extra", "word"),
    [
        (["--watch", "/no/such"], "no such directory"),
        (["--watch", "gs://bucket/*"], "none of"),
        (["--watch", ".", "--topic", "t"], "--topic: only with --kafka"),
        (["--kafka", "localhost:1"], "--topic: missing"),
        (["--watch", ".", "--generation", "-1"], "zero or more"),
        (["--pubsub", "projects/some-project/subscriptions/s"], "not with Prism"),
        (["--pubsub", "s", "--runner=DataflowRunner"], "got 's', allowed"),
        (["--kafka", "localhost:1", "--topic", "t", "--kafka-properties", "/no/such"], "cannot be read"),
        ([*TOPIC, "--schema-registry", "http://h", "--framed"], "--framed: only with --sink kafka:TOPIC"),
        ([*TOPIC, "--dead-letters", "kafka:t"], "--dead-letters: got 't', which is the topic of reports"),
        ([*TOPIC, "--sink", "kafka:t"], "--sink: got 'kafka:t', which is the topic of reports"),
        ([*TOPIC, "--sink", "kafka:d", "--dead-letters", "kafka:d"], "'kafka:d', which is the topic of dead letters"),
    ],
)
def test_a_wrong_option_of_stream_ends_at_once_with_one_line(collections, capsys, extra, word):
    assert command.main(["stream", "--collections", collections, "--output", "never", *extra]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert word in line


def test_the_watermark_waits_for_the_most_patient_collection(collections, tmp_path):
    assert build_job(collections, "--watch", str(tmp_path)).source.max_delay_ms == 300_000


def build_job(collections, *extra):
    parser = argparse.ArgumentParser()
    stream.add_arguments(parser)
    options = parser.parse_args(["--collections", collections, "--output", "gs://bucket/results", *extra])
    return stream.job_of(options, DATAFLOW)
