"""Real servers for the tests of this folder, started when first asked for: in each process of the test run one broker
and one Flink cluster for all of its tests."""

import shutil
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from devtools import Broker, Cluster, IcebergCatalog, Postgres, Prometheus, Registry
from devtools.beam import boot as boot_program
from devtools.beam import prism as prism_program
from devtools.jobs import ENDED
from devtools.processes import Process, eventually, stop
from hushgram import load_collections
from hushgram.pipelines.cli import command
from hushgram.transforms.sinks.iceberg_tables import open_catalog
from tests.helpers import guarded_broker
from tests.helpers.guarded_broker import GuardedBroker
from tests.helpers.lakes import NAME
from tests.helpers.pools import run_beam_pool
from tests.helpers.streams import YAML, Topic, are_estimated, count_letters, read_tallies
from tests.helpers.tools import run_or_skip

ROOT = Path(__file__).parents[2]


def _run_service(service):
    run_or_skip(service.start)
    yield service
    service.stop()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("engines")
    (path / "collections.yaml").write_text(YAML)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def collections(folder):
    return load_collections(folder / "collections.yaml")


@pytest.fixture(scope="session")
def broker(folder):
    yield from _run_service(Broker(folder / "kafka"))


@pytest.fixture(scope="session")
def guarded(folder):
    yield from _run_service(GuardedBroker(folder / "guarded"))


@pytest.fixture
def login(tmp_path):
    """The options of somebody who has a password."""

    def options(user, password="secret"):
        file = tmp_path / f"{user}.properties"
        lines = guarded_broker.login(user, password).items()
        file.write_text("# who we are\n" + "".join(f"{name}={value}\n" for name, value in lines))
        return ["--kafka-properties", str(file)]

    return options


@pytest.fixture(scope="session")
def registry(folder):
    """A schema registry that holds our schemas."""
    for service in _run_service(Registry(folder / "registry")):
        assert command.main(["schemas", "register", "--schema-registry", service.url]) == 0
        yield service


@pytest.fixture(scope="session")
def catalog_to_be(folder):
    """The catalogue that is not started yet, and knows its address."""
    return IcebergCatalog(folder / "iceberg")


@pytest.fixture(scope="session")
def catalog(catalog_to_be):
    yield from _run_service(catalog_to_be)


@pytest.fixture
def lake(catalog, monkeypatch):
    """The catalogue without the table, and the environment of those who may use it."""
    for name, value in catalog.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    tables = open_catalog(NAME.catalog)
    if tables.table_exists(NAME.identifier):
        tables.drop_table(NAME.identifier)
    return catalog


@pytest.fixture(scope="session")
def cluster(folder, catalog_to_be):
    """Its workers have the environment that it was started in, and so must know the Iceberg catalogue by then; only
    tests that write to it need it to run."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in catalog_to_be.environment.items():
            environment.setenv(name, value)
        cluster = Cluster(folder / "flink")
        run_or_skip(cluster.start)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def server(folder):
    yield from _run_service(Postgres(folder / "postgres"))


@pytest.fixture(scope="session")
def prometheus(folder):
    yield from _run_service(Prometheus(folder / "prometheus"))


@pytest.fixture
def postgres(server, monkeypatch):
    """The server, its database empty, and the environment of those who may connect to it."""
    monkeypatch.setenv("PGPASSWORD", server.environment["PGPASSWORD"])
    with server.connect() as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return server


@pytest.fixture
def sturdy_cluster(folder):
    """State on disk, and jobs that outlive the JobManager; one TaskManager, since Beam's pool is for one."""
    settings = {"state.backend.type": "rocksdb", "state.backend.incremental": "true"}
    yield from _run_service(Cluster(folder / "sturdy", task_managers=1, settings=settings, high_availability=True))


@pytest.fixture
def boot_pool(boot, tmp_path):
    """Workers as those of the images: they know the job's options, and keep state in memory that ours do not."""
    with run_beam_pool(Path(sys.executable), boot, tmp_path, {"PYTHONPATH": str(ROOT)}) as address:
        yield address


@pytest.fixture(scope="session")
def prism():
    return run_or_skip(prism_program)


@pytest.fixture(scope="session")
def boot():
    return run_or_skip(boot_program)


class StreamRun:
    """`hushgram stream`, as a person starts it, and its results so far."""

    def __init__(self, folder, name, *options, collections=None):
        self.output = folder / name
        command = [sys.executable, "-m", "hushgram", "stream", "--output", self.output]
        command += ["--collections", collections or folder / "collections.yaml", f"--job_name={name}", *options]
        self.temporary = folder / f"{name}.tmp"
        self.temporary.mkdir(exist_ok=True)
        environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(self.temporary)}
        self.process = Process(command, folder / f"{name}.log", environment)

    def until_tallies(self, expected, seconds=300):
        """Waits for exactly these tallies, and for their snapshots; one that is ever too high fails at once."""

        def is_complete():
            if not self.process.alive:
                raise AssertionError(f"the command ended; {self.process.tail()}")
            time.sleep(1)  # reading it all takes a core, which the engine has better use for
            tallies = read_tallies(self.output)
            for key, counts in tallies.items():
                assert sum(counts) <= sum(expected.get(key, [])), f"{key}: counted too often"
            return tallies == expected and are_estimated(self.output)

        try:
            eventually("the final tallies", is_complete, seconds)
        except TimeoutError:
            assert read_tallies(self.output) == expected
            raise

    def until_letters(self, refused, of_unknown_number, seconds=300):
        """Letters are written when the minute of receipt is over."""
        try:
            eventually("the letters", lambda: count_letters(self.output) == (refused, of_unknown_number), seconds)
        except TimeoutError:
            assert count_letters(self.output) == (refused, of_unknown_number)

    def until_first_pane(self, seconds=300):
        eventually("the first pane", lambda: read_tallies(self.output), seconds)

    def stop(self):
        stop([self.process])


@pytest.fixture
def name(request):
    return request.node.name.replace("[", "-").replace("]", "")


@pytest.fixture
def topic(broker, name):
    return Topic(broker, name)


@pytest.fixture
def start_stream(folder, name):
    """Starts streams; they end with the test."""
    runs = []

    def start(*options, suffix="", collections=None):
        runs.append(StreamRun(folder, name + suffix, *options, collections=collections))
        return runs[-1]

    yield start
    for run in runs:
        run.stop()


@pytest.fixture
def on_cluster(topic, start_stream):
    """Starts a stream on a Flink cluster; the job ends with the test."""
    jobs = []

    def find_running_jobs(cluster, run):
        run.process.check()
        return [job.id for job in cluster.jobs() if job.name == run.output.name and job.state == "RUNNING"]

    def start(cluster, *options, suffix="", collections=None):
        run = start_stream(*topic.options, *cluster.options(), *options, suffix=suffix, collections=collections)
        [job, *_] = eventually(f"job {run.output.name}", lambda: find_running_jobs(cluster, run))
        jobs.append((cluster, job))
        return run, job

    yield start
    for cluster, job in jobs:
        # A cluster of the test's own may have been stopped by now.
        if cluster.processes and any(
            candidate.id == job and candidate.state not in ENDED for candidate in cluster.jobs()
        ):
            cluster.cancel(job)


@pytest.fixture
def on_flink(cluster, on_cluster):
    """Starts a stream on the cluster that all tests share."""
    return partial(on_cluster, cluster)


@pytest.fixture
def now():
    return time.time_ns() // 1_000_000
