"""`--sink`: mistakes that end at once, and the steps that are built from its options."""

import argparse
from functools import partial

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from hushgram import load_collections
from hushgram.pipelines import aggregate, stream
from hushgram.pipelines.cli import command
from hushgram.pipelines.runners import DATAFLOW
from hushgram.transforms.collection_index import EARLIEST
from hushgram.transforms.run_store import plan_attempt
from hushgram.transforms.sinks.iceberg_tables import IcebergError, check_storage, prepare_table
from hushgram.transforms.sinks.postgresql import values
from hushgram.transforms.sources.result_files import read_snapshots
from tests.helpers.lakes import NAME, load_table, sqlite_settings
from tests.helpers.reports import encode_avro_file, make_report_rows

YAML = "collections: {commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1}}"
TABLE = "bigquery:some-project.results.snapshots"
ON_DATAFLOW = [
    "--runner=DataflowRunner", "--no_auth", "--dry_run=True", "--sdk_location=container",
    "--project=some-project", "--region=europe-west1",
    "--temp_location=gs://bucket/t", "--staging_location=gs://bucket/s",
]  # fmt: skip


@pytest.fixture
def arguments(tmp_path):
    (tmp_path / "collections.yaml").write_text(YAML)
    (tmp_path / "reports.avro").write_bytes(b"")
    common = ["--collections", str(tmp_path / "collections.yaml"), "--output", str(tmp_path / "never")]
    return {
        "aggregate": [*common, "--input", str(tmp_path / "reports.avro")],
        "stream": [*common, "--watch", str(tmp_path)],
    }


@pytest.mark.parametrize("name", ["aggregate", "stream"])
@pytest.mark.parametrize(
    ("sinks", "words"),
    [
        (["nowhere"], ["got 'nowhere'", "bigquery:PROJECT.DATASET.TABLE", "kafka:TOPIC"]),
        (["mysql://a:b@localhost/x"], ["got 'mysql:…'", "bigquery:PROJECT.DATASET.TABLE"]),
        (["bigquery"], ["got 'bigquery'", "allowed"]),
        (["bigquery:"], ["allowed: bigquery:PROJECT.DATASET.TABLE"]),
        (["bigquery:results.snapshots"], ["allowed: bigquery:PROJECT.DATASET.TABLE"]),
        (["bigquery:p.d.t.u"], ["allowed: bigquery:PROJECT.DATASET.TABLE"]),
        (["bigquery:p.d.t;drop"], ["allowed: bigquery:PROJECT.DATASET.TABLE"]),
        (["iceberg:"], ["got 'iceberg:', allowed: iceberg:CATALOG/NAMESPACE.TABLE"]),
        (["iceberg:lake"], ["allowed: iceberg:CATALOG/NAMESPACE.TABLE"]),
        (["iceberg:lake/snapshots"], ["allowed: iceberg:CATALOG/NAMESPACE.TABLE"]),
        (
            ["iceberg:nowhere/a.b"],
            ["--sink iceberg:nowhere/a.b: no catalogue 'nowhere'", "PYICEBERG_CATALOG__NOWHERE__URI"],
        ),
        (["postgresql:results"], ["allowed: postgresql://USER@HOST/DATABASE"]),
        (["postgresql://localhost:x:y/%zz"], ["allowed: postgresql://USER@HOST/DATABASE"]),
        (["postgresql://localhost/x?no=such"], ["allowed: postgresql://USER@HOST/DATABASE"]),
        (["prometheus:"], ["allowed: prometheus:FILE.prom"]),
        (["prometheus:results.txt"], ["got 'prometheus:results.txt', allowed: prometheus:FILE.prom", "node exporter"]),
        (["prometheus:.prom"], ["allowed: prometheus:FILE.prom"]),
        (["prometheus:\udcff.txt"], ["allowed: prometheus:FILE.prom"]),
        (["postgresql://\udcff/x"], ["allowed: postgresql://USER@HOST/DATABASE"]),
        (["prometheus:gs://bucket/results.prom"], ["allowed: prometheus:FILE.prom"]),
        (["prometheus:no/such/results.prom"], ["no directory", "no/such"]),
        (["kafka:out"], ["only with `hushgram stream --kafka`"]),
        ([TABLE, TABLE], ["named twice", TABLE]),
    ],
)
def test_a_wrong_sink_ends_at_once_with_a_line(arguments, capsys, tmp_path, name, sinks, words):
    options = [argument for sink in sinks for argument in ("--sink", sink)]
    assert command.main([name, *arguments[name], *options, "--temp_location=gs://bucket/t"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words), line
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:tr0ub4dor@localhost/results",
        "postgres://someone:tr0ub4dor@localhost/results",
        "postgresql://someone@localhost/results?password=tr0ub4dor",
        "postgresql://localhost/results?sslpassword=tr0ub4dor",
        "postgresql://someone:tr0ub4dor%zz@localhost/results",
    ],
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_password_in_an_address_is_refused_and_not_repeated(arguments, capsys, url, times):
    assert command.main(["aggregate", *arguments["aggregate"], *(["--sink", url] * times)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "PGPASSWORD" in line or "allowed" in line
    assert "tr0ub4dor" not in line


@pytest.mark.parametrize("sink", [TABLE, "prometheus:x.prom", "kafka:out", "mysql://a:secret@b/c", "nothing"])
def test_a_rollup_takes_tables_only(arguments, capsys, sink):
    options = ["--input", "nowhere", "--output", "never", "--sink", sink]
    assert command.main(["rollup", *arguments["aggregate"][:2], *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "allowed: postgresql://USER@HOST/DATABASE or iceberg:CATALOG/NAMESPACE.TABLE only" in line
    assert "secret" not in line


@pytest.fixture
def lake(tmp_path, monkeypatch):
    for name, value in sqlite_settings(tmp_path).items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("name", ["aggregate", "stream"])
def test_storage_that_iceberg_cannot_write_to_ends_the_command_with_a_line(arguments, tmp_path, lake, capsys, name):
    prepare_table(NAME)
    (tmp_path / "file").write_bytes(b"")
    with load_table().transaction() as transaction:
        transaction.set_properties({"write.data.path": f"file://{tmp_path}/file/folder"})
    assert command.main([name, *arguments[name], "--sink", f"iceberg:{NAME}"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hushgram: --sink iceberg:{NAME}: cannot write to file://{tmp_path}/file/folder: ")
    assert "Not a directory" in line
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("windows", ["{size: 2h, every: 1h}", "{size: 3650d, time_zone: America/Adak}"])
def test_the_windows_of_the_earliest_time_that_is_accepted_are_dates_to_tables(tmp_path, lake, capsys, windows):
    """One time more would be a report that ends the whole run."""
    path = tmp_path / "collections.yaml"
    path.write_text(YAML.replace("epsilon: 1", f"epsilon: 1, windows: {windows}"))
    [collection] = load_collections(path).values()
    rows = make_report_rows(collection, 3, seed=1)
    for row, time in zip(rows, (EARLIEST, EARLIEST - 1), strict=False):
        row["event_time"] = time
    (tmp_path / "reports.avro").write_bytes(encode_avro_file(rows))
    where = [
        "--collections",
        str(path),
        "--input",
        str(tmp_path / "reports.avro"),
        "--output",
        str(tmp_path / "results"),
    ]
    assert command.main(["aggregate", *where, "--sink", f"iceberg:{NAME}"]) == 0
    assert "read 3 reports = accepted 2 + refused 1" in capsys.readouterr().out
    assert command.main(["export", str(tmp_path / "results"), "--output", "iceberg:lake/bi"]) == 0
    snapshots = read_snapshots(tmp_path / "results")
    assert min(snapshot.key.window_start for snapshot in snapshots) < EARLIEST
    assert all(values(snapshot)["window_start"].year >= 1 for snapshot in snapshots), "to PostgreSQL, too"
    assert load_table().scan().to_arrow().num_rows == len(snapshots)


@pytest.mark.parametrize("what", ["data", "metadata"])
def test_data_and_metadata_may_have_storage_of_their_own(tmp_path, lake, what):
    prepare_table(NAME)
    table = load_table()
    (tmp_path / "file").write_bytes(b"")
    table.metadata.properties[f"write.{what}.path"] = f"file://{tmp_path}/file/{what}"
    with pytest.raises(IcebergError, match=f"^cannot write to file://{tmp_path}/file/{what}: "):
        check_storage(table)


def test_the_probe_of_the_storage_leaves_no_file(tmp_path, lake):
    for _ in range(2):
        prepare_table(NAME)
    assert [path.suffix for path in (tmp_path / "warehouse").rglob("*") if path.is_file()] == [".json"]


@pytest.mark.parametrize(("early", "seconds"), [("2s", 10), ("30s", 30), ("10m", 60), ("null", 60)])
def test_panes_wait_for_a_commit_as_long_as_for_a_file_and_ten_seconds_at_least(
    arguments, tmp_path, lake, early, seconds
):
    (tmp_path / "collections.yaml").write_text(f"{YAML[:-2]}, windows: {{size: 1h, early: {early}}}}}}}")
    options = parse_options(stream, [*arguments["stream"], "--sink", f"iceberg:{NAME}"])
    [sink] = stream.job_of(options, DATAFLOW).sinks
    assert sink.transform.pause_seconds == seconds


def test_load_jobs_need_a_place_on_cloud_storage(arguments, capsys):
    assert command.main(["aggregate", *arguments["aggregate"], "--sink", TABLE]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--temp_location=gs://" in line


def parse_options(module, arguments):
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return parser.parse_args(arguments)


def list_transforms(pipeline):
    proto, _ = pipeline.to_runner_api(return_context=True)
    return {transform.unique_name: transform for transform in proto.components.transforms.values()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step"), [("aggregate", "BigQueryBatchFileLoads"), ("stream", "_StreamToBigQuery/StreamInsertRows")]
)
@pytest.mark.parametrize("table", [TABLE, "bigquery:some-project:results.snapshots"])
def test_bigquery_translates_for_dataflow(arguments, tmp_path, monkeypatch, name, step, table):
    """All that can be tested without the service: the job that it would receive."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    command_line = [*arguments[name], "--sink", table]
    if name == "aggregate":
        job, beam_arguments = aggregate.job_of(parse_options(aggregate, command_line), ON_DATAFLOW), ON_DATAFLOW
        build = partial(aggregate.build, attempt=plan_attempt("gs://bucket/results", job.run, [], []))
    else:
        job, build = stream.job_of(parse_options(stream, command_line), DATAFLOW), stream.build
        beam_arguments = [*ON_DATAFLOW, "--streaming"]
    pipeline = beam.Pipeline(options=PipelineOptions(beam_arguments))
    build(pipeline, job)
    steps = list_transforms(pipeline)
    assert any(name.startswith(f"Sink 0, bigquery/Insert/{step}") for name in steps)
    assert ("Sink 0, bigquery/Refused" in steps) == (name == "stream")
    [insert] = [
        transform for transform in steps.values() if transform.spec.urn == "beam:transform:write_to_big_query:v0"
    ]
    assert insert.unique_name == "Sink 0, bigquery/Insert"
    assert len({transform.environment_id for transform in steps.values()} - {""}) == 1, "nothing but Python"
    pipeline.run()
