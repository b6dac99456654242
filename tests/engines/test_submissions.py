"""Submitting to Flink: the options that files and guides give, and what becomes of a job when its submitter is gone."""

import argparse

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from devtools.flink import job_server
from devtools.processes import HOST, Process, eventually, free_port, listening, stop
from hushgram.pipelines import aggregate, stream
from tests.helpers.deployments import submissions
from tests.helpers.reports import exact_tallies
from tests.helpers.streams import everything, tallies_in

SUBMISSIONS = [pytest.param(given, id=f"{where} {number}") for number, (where, given) in enumerate(submissions())]


@pytest.fixture(scope="module")
def of_flink(cluster):
    """The options that the job server knows, as Beam asks it for them."""
    with grpc.insecure_channel(cluster.job_endpoint) as channel:
        service = beam_job_api_pb2_grpc.JobServiceStub(channel)
        described = service.DescribePipelineOptions(beam_job_api_pb2.DescribePipelineOptionsRequest())
    return {option.name for option in described.options}


def of_beam():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for kind in PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return {name.removeprefix("--") for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("given", SUBMISSIONS)
def test_every_option_of_files_and_guides_is_known(given, of_flink):
    command, *options = (word for word in given if word != "…")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    {"aggregate": aggregate, "stream": stream}[command].add_arguments(parser)
    if "…" in given:  # an example that leaves out what was said before
        for action in parser._actions:
            action.required = False
        for group in parser._mutually_exclusive_groups:
            group.required = False
    _, for_beam = parser.parse_known_args(options)
    unknown = [option for option in for_beam if not option.startswith("--")]
    unknown += [option for option in for_beam if option[2:].partition("=")[0] not in of_flink | of_beam()]
    assert not unknown


@pytest.fixture
def own_job_server(cluster, tmp_path):
    """One more, which may be killed."""
    ports = {part: free_port() for part in ("job", "artifact", "expansion")}
    command = ["java", "-Xmx512m", "-jar", job_server(), f"--flink-master={cluster.address}", f"--job-host={HOST}"]
    command += [f"--{part}-port={port}" for part, port in ports.items()]
    environment = {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={tmp_path} -XX:-UsePerfData"}
    process = Process([*command, f"--artifacts-dir={tmp_path}/artifacts"], tmp_path / "jobserver.log", environment)
    address = f"{HOST}:{ports['job']}"
    process.wait(lambda: listening(address))
    yield address, process
    stop([process])


def test_a_job_outlives_the_command_and_the_job_server(
    own_job_server, cluster, topic, collections, now, start_stream, name
):
    address, server = own_job_server
    early, later = everything(collections, now, seed=71, count=100), everything(collections, now, seed=81, count=100)
    options = [option for option in cluster.options() if "job_endpoint" not in option]
    run = start_stream(*topic.options, *options, f"--job_endpoint={address}")
    topic.send(early.messages)
    try:
        run.until_some()
        run.stop()
        server.kill()
        topic.send(later.messages)
        early.add(later)
        expected = exact_tallies(list(collections.values()), early.accepted)
        eventually("the tallies", lambda: tallies_in(run.output) == expected)
    finally:
        [job] = [job for job in cluster.jobs() if job.name == name]
        cluster.cancel(job.id)
