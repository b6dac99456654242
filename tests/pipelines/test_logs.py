"""Which log messages of the engines reach a person."""

import io
import logging

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from hushgram.pipelines.cli.logs import Terminal
from hushgram.transforms.sinks.postgresql_table import PostgreSQLError


@pytest.fixture
def terminal():
    """The handler of the command, beside those of the test run."""
    handler = Terminal(io.StringIO())
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def test_options_that_only_a_job_server_knows_are_passed_on_without_a_warning(terminal, caplog):
    PipelineOptions(["--runner=FlinkRunner", "--checkpointing_interval=1000"]).get_all_options()
    PipelineOptions(["--checkpointing_interval", "1000"]).get_all_options(retain_unknown_options=True)
    assert terminal.stream.getvalue() == ""
    assert "unparseable" in caplog.text.lower()  # what Beam would have printed


def test_the_warning_about_a_missing_apitools_is_not_printed(terminal, caplog):
    logging.warning("apitools not found, and bigquery client libraries are not available despite the import.")
    assert terminal.stream.getvalue() == ""
    assert "apitools" in caplog.text
    logging.warning("something else")
    assert terminal.stream.getvalue() == "WARNING root: something else\n"


def test_other_warnings_about_options_are_printed(terminal):
    logging.getLogger("apache_beam.options.pipeline_options").warning("Discarding invalid overrides: %s", {"a": 1})
    assert (
        terminal.stream.getvalue()
        == "WARNING apache_beam.options.pipeline_options: Discarding invalid overrides: {'a': 1}\n"
    )


def test_an_error_of_ours_is_left_to_the_last_line_of_the_command_and_others_are_printed(terminal):
    for error in (PostgreSQLError("away"), ValueError("a bug")):
        try:
            raise error
        except Exception:
            logging.getLogger("apache_beam.runners.common").exception("failed")
    logging.getLogger("PrismRunner").error("Traceback\n%s.PostgreSQLError: away", PostgreSQLError.__module__)
    output = terminal.stream.getvalue()
    assert "ValueError: a bug" in output
    assert "away" not in output


def test_no_log_message_is_printed_after_the_end(terminal):
    logging.getLogger("anyone").error("before")
    terminal.end()
    logging.getLogger("anyone").error("after")
    assert terminal.stream.getvalue() == "ERROR anyone: before\n"
