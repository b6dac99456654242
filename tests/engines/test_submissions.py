"""Submitting to Flink: the options that files and guides name, and the fate of a job whose submitter is gone."""

import argparse

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

from devtools.flink import job_server
from devtools.processes import HOST, Process, eventually, free_port, listening, stop
from hushgram.pipelines import aggregate, stream
from tests.helpers.deployments import find_submissions
from tests.helpers.reports import compute_tallies
from tests.helpers.streams import make_mixed_stream, read_tallies

SUBMISSIONS = [
    pytest.param(arguments, id=f"{file} {number}") for number, (file, arguments) in enumerate(find_submissions())
]


@pytest.fixture(scope="module")
def flink_option_names(cluster):
    """The options that the job server knows, as Beam asks it for them."""
    with grpc.insecure_channel(cluster.job_endpoint) as channel:
        service = beam_job_api_pb2_grpc.JobServiceStub(channel)
        response = service.DescribePipelineOptions(beam_job_api_pb2.DescribePipelineOptionsRequest())
    return {option.name for option in response.options}


def read_beam_option_names():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for kind in PipelineOptions.__subclasses__():
        kind._add_argparse_args(parser)
    return {name.removeprefix("--") for action in parser._actions for name in action.option_strings}


@pytest.mark.parametrize("arguments", SUBMISSIONS)
def test_every_option_of_files_and_guides_is_known(arguments, flink_option_names):
    command, *options = (word for word in arguments if word != "…")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    {"aggregate": aggregate, "stream": stream}[command].add_arguments(parser)
    if "…" in arguments:  # an example that leaves out earlier options
        for action in parser._actions:
            action.required = False
        for group in parser._mutually_exclusive_groups:
            group.required = False
    _, beam_arguments = parser.parse_known_args(options)
    unknown = [option for option in beam_arguments if not option.startswith("--")]
    unknown += [
        option
        for option in beam_arguments
        if option[2:].partition("=")[0] not in flink_option_names | read_beam_option_names()
    ]
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
    early, later = (
        make_mixed_stream(collections, now, seed=71, count=100),
        make_mixed_stream(collections, now, seed=81, count=100),
    )
    options = [option for option in cluster.options() if "job_endpoint" not in option]
    run = start_stream(*topic.options, *options, f"--job_endpoint={address}")
    topic.send(early.messages)
    try:
        run.until_first_pane()
        run.stop()
        server.kill()
        topic.send(later.messages)
        early.add(later)
        expected = compute_tallies(list(collections.values()), early.accepted)
        eventually("the tallies", lambda: read_tallies(run.output) == expected)
    finally:
        [job] = [job for job in cluster.jobs() if job.name == name]
        cluster.cancel(job.id)
