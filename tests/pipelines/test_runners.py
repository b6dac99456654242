"""What of the engines' own words reaches a person."""

import logging

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from hushgram.pipelines.runners import quieten

LOGGER = logging.getLogger("apache_beam.options.pipeline_options")


@pytest.fixture
def quiet():
    quieten()
    yield
    LOGGER.filters.clear()


def test_options_that_only_a_job_server_knows_are_passed_on_without_a_warning(quiet, caplog):
    PipelineOptions(["--runner=FlinkRunner", "--checkpointing_interval=1000"]).get_all_options()
    PipelineOptions(["--checkpointing_interval", "1000"]).get_all_options(retain_unknown_options=True)
    assert not caplog.records


def test_without_silence_beam_would_warn(caplog):
    PipelineOptions(["--checkpointing_interval=1000"]).get_all_options()
    assert "unparseable" in caplog.text.lower()


def test_other_warnings_about_options_are_heard(quiet, caplog):
    LOGGER.warning("Discarding invalid overrides: %s", {"a": 1})
    assert "Discarding invalid overrides" in caplog.text
