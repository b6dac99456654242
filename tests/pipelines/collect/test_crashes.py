"""kill -9 of collectors at random moments under load: every acknowledged report is counted exactly once.

Two collectors share a folder. Senders repeat what was not acknowledged, with the same ids. Ten random schedules; the
same pipeline that a person would run counts them all in the end.
"""

import random
import shutil
import time
from collections import Counter
from functools import partial

import pytest

from devtools.processes import eventually, free_port, listening
from hushgram.pipelines.cli import command
from hushgram.schemas.avro_schemas import REPORT
from hushgram.schemas.messages import encode_message
from tests.helpers.collectors import COLLECTIONS, YAML, as_kept, count_reports, make_row, read_batches
from tests.helpers.forked_collectors import Forks
from tests.helpers.reports import compute_tallies
from tests.helpers.senders import Sender, bodies_of
from tests.helpers.streams import read_tallies

pytestmark = pytest.mark.slow

SCHEDULES, SENDERS, EACH = 10, 8, 60


@pytest.fixture(scope="module")
def forks():
    running = Forks()
    yield running
    running.close()


class Pair:
    """Two collectors that write to one folder, and are started again where they were killed."""

    def __init__(self, forks, folder):
        self.forks, self.folder, self.output = forks, folder, folder / "kept"
        (folder / "collections.yaml").write_text(YAML)
        self.pids = {free_port(): None, free_port(): None}
        for port in self.pids:
            self.start(port)

    def start(self, port):
        where = ["--collections", self.folder / "collections.yaml", "--output", self.output]
        options = [*where, "--port", port, "--wait", "5ms"]
        self.pids[port] = self.forks.start("collect", *options, log=self.folder / f"{port}.log")

    def until_listening(self):
        for port in self.pids:
            eventually(f"port {port}", partial(listening, f"127.0.0.1:{port}"))

    def kill(self, port):
        self.forks.kill(self.pids[port])
        self.pids[port] = None

    def close(self):
        for port, pid in self.pids.items():
            if pid is not None:
                self.kill(port)


def run_schedule(forks, folder, seed, ids=True):
    """The rows that were sent, all acknowledged in the end, and how often a collector was killed."""
    rng = random.Random(seed)
    folder.mkdir()
    pair = Pair(forks, folder)
    pair.until_listening()
    senders, rows = [], []
    for number in range(SENDERS):
        first = 1_000_000 * seed + 10_000 * number
        names = rng.choices(list(COLLECTIONS), k=EACH)
        own = [make_row(first + place, name) for place, name in enumerate(names)]
        if not ids:
            own = [{**row, "id": None} for row in own]
        rows += own
        bodies = bodies_of(own, partial(encode_message, REPORT), rng)
        senders.append(Sender(bodies, list(pair.pids), rng.randrange(2**32)))
    kills = 0
    while any(sender.thread.is_alive() for sender in senders) and kills < 6:
        time.sleep(rng.uniform(0.02, 0.3))
        port = rng.choice(list(pair.pids))
        pair.kill(port)
        kills += 1
        time.sleep(rng.uniform(0, 0.1))
        pair.start(port)
    for sender in senders:
        sender.join()
        assert sender.acknowledged == len(sender.bodies), Counter(sender.answers)
    pair.close()
    return rows, kills, [status for sender in senders for status in sender.answers]


@pytest.fixture(scope="module")
def schedules(forks, tmp_path_factory):
    """The folder of all, what was sent, and what was answered."""
    folder = tmp_path_factory.mktemp("crashes")
    outcomes = [run_schedule(forks, folder / str(seed), seed) for seed in range(SCHEDULES)]
    yield folder, outcomes
    shutil.rmtree(folder)


def test_every_acknowledged_report_is_kept_and_no_other(schedules):
    folder, outcomes = schedules
    for seed, (rows, kills, _) in enumerate(outcomes):
        kept = count_reports(read_batches(folder / str(seed) / "kept"))
        assert kills
        assert set(kept) == {as_kept(row) for row in rows}
    # The test is about something: some posts were cut off, and some of these had been kept and were sent again.
    assert any(0 in answers for _, _, answers in outcomes)


def test_the_pipeline_counts_every_report_exactly_once(schedules, tmp_path):
    folder, outcomes = schedules
    arguments = ["--collections", folder / "0" / "collections.yaml", "--input", f"{folder}/*/kept/*.avro"]
    assert command.main(["aggregate", *map(str, arguments), "--output", str(tmp_path / "results")]) == 0
    rows = [row for rows, _, _ in outcomes for row in rows]
    assert read_tallies(tmp_path / "results") == compute_tallies(list(COLLECTIONS.values()), rows)


def test_without_ids_every_acknowledged_report_is_kept_at_least_once(forks, tmp_path):
    rows, _, _ = run_schedule(forks, tmp_path / "all", 77, ids=False)
    kept = count_reports(read_batches(tmp_path / "all" / "kept"))
    sent = Counter(as_kept(row) for row in rows)
    assert sent <= kept
    assert set(sent) == set(kept)


def test_what_a_killed_collector_had_not_finished_is_not_read(schedules):
    """Files that have not got their names begin with a dot; all others are whole."""
    folder, _ = schedules
    for path in folder.rglob("kept/*"):
        assert path.name.startswith((".reports-", "reports-")) or path.name == "dead_letters"
