"""The options of Beam's Flink runner, as its own job server names them."""

import argparse

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_job_api_pb2 as job_api

from devtools.flink import job_server
from devtools.processes import HOST, Service, free_port, listening
from devtools.tools import need
from hushgram.pipelines import stream
from hushgram.pipelines.cli import flink_options
from hushgram.pipelines.cli.options import described_options, parse
from tests.helpers.tools import run_or_skip


class JobServer(Service):
    """Beam's job server alone: it needs no cluster to describe its options."""

    def _start(self):
        need("java")
        jar, port = job_server(), free_port()
        self.endpoint = f"{HOST}:{port}"
        ports = [f"--job-port={port}", f"--artifact-port={free_port()}", f"--expansion-port={free_port()}"]
        process = self.run("jobserver", ["java", "-jar", jar, f"--job-host={HOST}", *ports])
        process.wait(lambda: listening(self.endpoint))


@pytest.fixture
def endpoint(tmp_path):
    server = run_or_skip(JobServer(tmp_path).start)
    yield server.endpoint
    server.stop()


def test_the_options_of_flink_are_those_that_its_job_server_names(endpoint, tmp_path):
    beam_options = set(PipelineOptions([]).get_all_options())
    foreign = [option for option in described_options(endpoint) if option.name not in beam_options]
    flags = {
        option.name: option.default_value for option in foreign if option.type == job_api.PipelineOptionType.BOOLEAN
    }
    assert {name for name, default in flags.items() if default != "true"} == flink_options.SWITCH_ON
    assert {name for name, default in flags.items() if default == "true"} == flink_options.SWITCH_OFF
    assert {option.name for option in foreign} - set(flags) == flink_options.WITH_VALUE
    # An option that only the server knows is looked up there.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flink_options, "WITH_VALUE", frozenset())
        parser = argparse.ArgumentParser(allow_abbrev=False)
        stream.add_arguments(parser)
        own_arguments = ["--collections=c", f"--watch={tmp_path}", "--output=o"]
        beam_arguments = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", "--savepoint_path=s"]
        assert parse(parser, [*own_arguments, *beam_arguments], "PrismRunner")[1] == beam_arguments
