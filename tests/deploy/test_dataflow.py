"""Dataflow, as far as can be tested without the service: the job it would receive, and the templates' parameters."""

import argparse
import json
import os
import runpy
import sys

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2 as api

from deploy.dataflow import main as template
from deploy.dataflow.metadata import HERE, metadata, text
from hushgram.pipelines import aggregate, stream
from hushgram.pipelines.cli import command
from hushgram.pipelines.runners import for_stream
from hushgram.transforms.run_store import plan_attempt
from hushgram.transforms.tallies import TalliesCoder

YAML = """
collections:
  commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1}
  age: {domain: {low: 0, high: 127}, buckets: 64, epsilon: 1, windows: {size: 1d, every: 1h}}
"""
SUBSCRIPTION = "projects/some-project/subscriptions/reports"
TABLE = "bigquery:some-project.results.snapshots"
ON_DATAFLOW = [
    "--runner=DataflowRunner", "--no_auth", "--dry_run=True", "--sdk_location=container",
    "--project=some-project", "--region=europe-west1",
    "--temp_location=gs://bucket/t", "--staging_location=gs://bucket/s",
]  # fmt: skip
pytestmark = pytest.mark.slow

HOURS = "windows of 1h every 1h, delay 2m, age 1d, early 1m"
OF_A_RUN = [
    "Aggregate/By shard of ids",
    "Aggregate/Commit/Write histograms/Together",
    "Aggregate/Commit/Write dead letters/Together",
]
DAYS = "windows of 1d every 1h, delay 2m, age 1d, early 1m"


@pytest.fixture(scope="module")
def arguments_by_command(tmp_path_factory):
    """By command, the arguments that a person would type."""
    folder = tmp_path_factory.mktemp("dataflow")
    (folder / "collections.yaml").write_text(YAML)
    (folder / "reports.avro").write_bytes(b"")
    common = [f"--collections={folder}/collections.yaml", "--output=gs://bucket/results", f"--sink={TABLE}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(folder))
        yield {
            "aggregate": [*common, f"--input={folder}/reports.avro", *ON_DATAFLOW],
            "stream": [*common, f"--pubsub={SUBSCRIPTION}", *ON_DATAFLOW],
        }


@pytest.fixture(scope="module")
def jobs(arguments_by_command):
    return {name: TranslatedJob(name, arguments_by_command[name]) for name in arguments_by_command}


class TranslatedJob:
    """The pipeline of the job, as Dataflow receives it, and its coders."""

    def __init__(self, name, arguments):
        parser = argparse.ArgumentParser()
        module = template.COMMANDS[name]
        module.add_arguments(parser)
        options, beam_arguments = parser.parse_known_args(arguments)
        if module is stream:
            engine, beam_arguments = for_stream(beam_arguments)
            job = (stream.job_of(options, engine),)
        else:
            job = aggregate.job_of(options, beam_arguments)
            job = job, plan_attempt(job.output, job.run, aggregate.input_files(job.inputs), [])
        pipeline = beam.Pipeline(options=PipelineOptions(beam_arguments))
        module.build(pipeline, *job)
        runner = pipeline.runner
        self.job = pipeline.run().job
        self.proto = runner.proto_pipeline
        self.context = runner.proto_context
        self.steps = {step.unique_name: step for step in self.proto.components.transforms.values()}

    def coder_of(self, pcollection):
        return self.context.coders.get_by_id(self.proto.components.pcollections[pcollection].coder_id)

    def find_grouped_coders(self):
        """By step, the coder of the elements that each of our groups by key shuffles, and keeps until then."""
        return {
            name: self.coder_of(next(iter(step.inputs.values())))
            for name, step in self.steps.items()
            if step.spec.urn == "beam:transform:group_by_key:v1"
            and not name.startswith("Sink")
            and "/ReshufflePerKey/" not in name  # Beam's own, with coders of its own
        }

    def find_state_coders(self):
        """By step and state, the coder of the state."""
        state_coders = {}
        for name, step in self.steps.items():
            if step.spec.urn == "beam:transform:pardo:v1":
                for state, spec in api.ParDoPayload.FromString(step.spec.payload).state_specs.items():
                    kind = getattr(spec, spec.WhichOneof("spec"))
                    coder = getattr(kind, "coder_id", "") or kind.element_coder_id
                    state_coders[name, state] = self.context.coders.get_by_id(coder)
        return state_coders


def walk_coders(coder):
    yield coder
    for part in getattr(coder, "_coders", None) or [getattr(coder, "_elem_coder", None)]:
        if part is not None:
            yield from walk_coders(part)


def pickles(coder):
    """Whether a coder may pickle anything: these two pickle whatever they do not know."""
    fallback_coders = (coders.FastPrimitivesCoder, coders.PickleCoder)
    return any(isinstance(part, fallback_coders) for part in walk_coders(coder))


@pytest.mark.parametrize("name", ["aggregate", "stream"])
def test_a_dry_run_translates_the_job_and_does_not_start_it(name, arguments_by_command, capsys):
    assert command.main([name, *arguments_by_command[name]]) == 0
    assert capsys.readouterr().out == "the job is translated, and was not started\n"


@pytest.mark.parametrize("name", ["aggregate", "stream"])
def test_shuffled_elements_have_coders_of_ours_and_deterministic_keys(name, jobs):
    grouped = jobs[name].find_grouped_coders()
    assert {step for step in grouped if step.startswith("Aggregate")} == {
        f"Aggregate/Combine, {HOURS}/Add up/GroupByKey",
        f"Aggregate/Combine, {DAYS}/Add up/GroupByKey",
        *(OF_A_RUN if name == "aggregate" else []),
    }
    assert {step for step in grouped if step.startswith("Write")} == (
        {"Write snapshots/Windows/Together", "Write histograms/Windows/Together"}
        if name == "aggregate"
        else {"Write dead letters/Together", "Write snapshots/Panes/Together", "Write histograms/Panes/Together"}
    )
    for step, coder in grouped.items():
        assert coder.key_coder().is_deterministic(), step
        assert not pickles(coder), f"{step}: {coder}"
        assert coder.is_deterministic(), f"{step}: {coder}"


def test_state_has_coders_of_ours(jobs):
    states = jobs["stream"].find_state_coders()
    own_coders = {location: coder for location, coder in states.items() if not location[0].startswith("Sink")}
    assert {location: type(coder).__name__ for location, coder in own_coders.items()} == {
        (f"Aggregate/Combine, {HOURS}/Accumulate", "total"): "TalliesCoder",
        (f"Aggregate/Combine, {HOURS}/Accumulate", "held"): "TupleCoder",
        (f"Aggregate/Combine, {DAYS}/Accumulate", "total"): "TalliesCoder",
        (f"Aggregate/Combine, {DAYS}/Accumulate", "held"): "TupleCoder",
        ("Aggregate/Each id once/ParDo(DeduplicateStream)", "ids"): "BytesCoder",
        ("Aggregate/Each id once/ParDo(DeduplicateStream)", "mark"): "BytesCoder",
    }


@pytest.mark.parametrize("name", ["aggregate", "stream"])
def test_accumulators_are_never_pickled(name, jobs):
    """Of each CombineFn, which Dataflow may lift: the accumulators that it would send on before the shuffle."""
    translated = jobs[name]
    combines = {
        step.unique_name: api.CombinePayload.FromString(step.spec.payload).accumulator_coder_id
        for step in translated.steps.values()
        if step.spec.urn == "beam:transform:combine_per_key:v1" and step.unique_name.startswith("Aggregate")
    }
    assert set(combines) == {f"Aggregate/Combine, {windows}/Add up" for windows in (HOURS, DAYS)}
    for coder in combines.values():
        assert isinstance(translated.context.coders.get_by_id(coder), TalliesCoder)


def test_a_stream_reads_the_subscription_and_inserts_into_the_table(jobs):
    translated = jobs["stream"]
    reads = [step for step in translated.steps.values() if step.spec.urn == "beam:transform:pubsub_read:v1"]
    [read_payload] = [api.PubSubReadPayload.FromString(step.spec.payload) for step in reads]
    assert read_payload.subscription == SUBSCRIPTION
    assert not read_payload.with_attributes
    assert any(name.startswith("Sink 0, bigquery/Insert/_StreamToBigQuery") for name in translated.steps)
    assert translated.job.proto.type_ == type(translated.job.proto.type_).JOB_TYPE_STREAMING


def test_a_batch_job_is_translated_as_batch_and_loads_the_table(jobs):
    translated = jobs["aggregate"]
    assert any(name.startswith("Sink 0, bigquery/Insert/BigQueryBatchFileLoads") for name in translated.steps)
    assert translated.job.proto.type_ == type(translated.job.proto.type_).JOB_TYPE_BATCH


@pytest.mark.parametrize("name", ["aggregate", "stream"])
def test_all_steps_run_in_one_image_of_the_installed_beam_version(name, jobs):
    [environment] = jobs[name].proto.components.environments.values()
    image = api.DockerPayload.FromString(environment.payload).container_image
    assert image.endswith(f"/beam_python{sys.version_info[0]}.{sys.version_info[1]}_sdk:{beam.__version__}")


@pytest.mark.parametrize("name", ["aggregate", "stream"])
def test_the_template_metadata_match_the_options(name):
    """`python -m deploy.dataflow.metadata` writes them anew."""
    assert (HERE / f"{name}.json").read_text() == text(name)
    parameters = metadata(name)["parameters"]
    assert [parameter["name"] for parameter in parameters] == list(template.options_of(name))
    assert all(parameter["helpText"] and parameter["label"] for parameter in parameters)


def test_template_parameters_become_the_options_they_were_made_from():
    for name in template.COMMANDS:
        for parameter, option in template.options_of(name).items():
            value = next(iter(option.choices or ["7"]))
            assert template.arguments(name, [f"--{parameter}={value}"]) == [f"{option.option_strings[0]}={value}"]


def test_an_empty_template_parameter_is_left_out():
    assert template.arguments("stream", ["--topic=", "--sink=", "--streaming"]) == ["--streaming"]


@pytest.mark.parametrize("name", ["aggregate", "stream"])
def test_the_template_launcher_translates_the_job(name, arguments_by_command, monkeypatch, capsys):
    """With its parameters as the launcher gives them, in the way it runs a file."""
    parameters = [option.replace("--as-of", "--as_of") for option in arguments_by_command[name]]
    monkeypatch.setenv("HUSHGRAM_COMMAND", name)
    monkeypatch.setattr(sys, "argv", [os.fspath(HERE / "main.py"), *parameters])
    with pytest.raises(SystemExit) as exit_info:
        runpy.run_path(os.fspath(HERE / "main.py"), run_name="__main__")
    assert exit_info.value.code == 0
    assert "translated" in capsys.readouterr().out


def test_the_metadata_files_have_only_fields_that_dataflow_knows():
    parameter_fields = {"name", "label", "helpText", "isOptional", "regexes"}
    for name in template.COMMANDS:
        content = json.loads((HERE / f"{name}.json").read_text())
        assert set(content) <= {
            "name", "description", "streaming", "supportsAtLeastOnce", "supportsExactlyOnce", "parameters",
        }  # fmt: skip
        assert all(set(parameter) <= parameter_fields for parameter in content["parameters"])
