"""An option that neither the command nor its runner knows is refused, with the closest name."""

import argparse

import pytest

from hushgram.pipelines import aggregate, stream
from hushgram.pipelines.cli import command
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.cli.options import parse
from hushgram.pipelines.runners import for_stream

YAML = "collections: {commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1}}"
FLINK = "--runner=FlinkRunner"


@pytest.fixture
def valid_arguments(tmp_path):
    """By command, valid arguments; nothing that they name is read before a mistake is found."""
    (tmp_path / "collections.yaml").write_text(YAML)
    common = [f"--collections={tmp_path}/collections.yaml", f"--output={tmp_path}/out"]
    return {"aggregate": [*common, f"--input={tmp_path}/*.avro"], "stream": [*common, f"--watch={tmp_path}"]}


@pytest.mark.parametrize(
    ("name", "extra", "message"),
    [
        ("aggregate", ["--formt", "parquet"], "no option of hushgram aggregate or FnApiRunner; did you mean --format?"),
        ("aggregate", ["--genration", "1"], "did you mean --generation?"),
        ("aggregate", ["--form=parquet"], "did you mean --format?"),
        ("aggregate", ["--as_of=2026-01-01"], "did you mean --as-of?"),
        ("aggregate", ["--runner", "Foo"], "--runner: got 'Foo', allowed: BundleBasedDirectRunner, DataflowRunner"),
        ("aggregate", ["--runner=FlinkRuner"], "did you mean FlinkRunner?"),
        ("aggregate", ["stray"], "'stray': belongs to no option"),
        ("aggregate", ["--num_workers", "many"], "--num_workers: invalid int value: 'many'"),
        ("aggregate", ["-x"], "-x: no option"),
        ("stream", ["--sikn=prometheus:/tmp/x"], "no option of hushgram stream or PrismRunner; did you mean --sink?"),
        ("stream", ["--checkpointing_interval=5000"], "no option of hushgram stream or PrismRunner"),
        ("stream", [FLINK, "--flink-master=x"], "did you mean --flink_master?"),
        ("stream", [FLINK, "--savepoint_pth", "x"], "did you mean --savepoint_path?"),
        ("stream", ["--runner=DataflowRunner", "--projet=x"], "did you mean --project?"),
        ("stream", ["--streaming", "true"], "'true': belongs to no option"),
    ],
)  # fmt: skip
def test_a_misspelt_option_ends_the_command_with_a_line(name, extra, message, valid_arguments, tmp_path, capsys):
    assert command.main([name, *valid_arguments[name], *extra]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "extra",
    [
        [FLINK, "--checkpointing_interval", "5000"],
        [FLINK, "--savepoint_path=file:///s", "--allow_non_restored_state", "--max_bundle_size=10"],
        [FLINK, "--allow_non_restored_state=true", "--operator_chaining=False", "--parallelism", "2"],
        ["--runner=PortableRunner", "--job_endpoint=localhost:8099", "--flink_master=h:8081", "--object_reuse"],
        ["--runner", "DataflowRunner", "--project=p", "--region", "r", "--experiments=a", "--experiments", "b"],
        ["--prism_location=/p", "--job_name=j", "--streaming=true"],
        ["--direct_num_workers", "2", "--direct_running_mode=multi_processing"],
    ],
)
def test_options_of_the_runner_are_passed_on_in_every_form(extra, valid_arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    stream.add_arguments(parser)
    assert parse(parser, [*valid_arguments["stream"], *extra], "PrismRunner")[1] == extra


def test_flags_with_a_value_reach_beam_in_the_form_it_takes():
    _, options = for_stream([FLINK, "--allow_non_restored_state=True", "--object_reuse=false", "--streaming=true"])
    assert options[:3] == [FLINK, "--allow_non_restored_state", "--streaming"]
    assert "--streaming" not in options[3:]


def test_a_value_that_looks_like_a_name_is_a_value(valid_arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    aggregate.add_arguments(parser)
    arguments = [*valid_arguments["aggregate"], "--job_name", "formt", "--labels=a=b"]
    assert parse(parser, arguments, "FnApiRunner")[1] == ["--job_name", "formt", "--labels=a=b"]


def test_options_are_refused_when_the_job_server_does_not_answer(valid_arguments, monkeypatch):
    monkeypatch.setattr("hushgram.pipelines.cli.options.ANSWER_SECONDS", 0.1)
    parser = argparse.ArgumentParser(prog="hushgram stream", allow_abbrev=False)
    stream.add_arguments(parser)
    portable = ["--runner=PortableRunner", "--job_endpoint=127.0.0.1:9", "--of_another_engine=1"]
    with pytest.raises(UsageError, match="--of_another_engine: no option"):
        parse(parser, [*valid_arguments["stream"], *portable], "PrismRunner")
