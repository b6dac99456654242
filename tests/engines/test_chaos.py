"""The harness of `make chaos`, for a few moments: two faults at once on a real stream, and a loss to be noticed."""

import time

import pytest
from tools import or_skip

from benchmarks.chaos import run as chaos
from benchmarks.chaos import watch
from benchmarks.chaos.ledger import Reports
from benchmarks.chaos.run import Plan
from benchmarks.chaos.schedule import KINDS, Fault, Injury
from hushgram import load_collections

NAMED = {kind.name: kind for kind in KINDS}


def test_a_stream_outlives_two_faults_and_a_report_that_never_came_is_a_loss(tmp_path, monkeypatch):
    both = Injury(NAMED["kill workers"], 0.0, 0.0, 0.3), Injury(NAMED["stall database"], 0.5, 3.0, 0.7)
    ledgers = []

    class Ledger(chaos.Ledger):
        def __init__(self, collections):
            super().__init__(collections)
            ledgers.append(self)

    def faults():
        yield Fault(1, 0.5, both)
        # Entered in the books, and never sent.
        collection = load_collections(tmp_path / "run" / "collections.yaml")["age"]
        ledgers[0].accept(Reports("age", collection.revision, None, time.time_ns() // 1_000_000, (0,)))
        monkeypatch.setattr(watch, "LIMIT_SECONDS", 5.0)
        yield Fault(2, 0.0, (Injury(NAMED["terminate database"], 0.0, 0.0, 0.1),))
        pytest.fail("the run went on after a loss")

    monkeypatch.setattr(chaos, "Ledger", Ledger)
    lines = []
    plan = Plan(5, faults(), 30, tmp_path / "run", with_disks=False, until_last_letter=False, say=lines.append)
    survived, lost = or_skip(chaos.run, plan)
    assert survived.problems == ()
    assert any("age, all groups" in problem and "too few of cell 0" in problem for problem in lost.problems)
    assert (tmp_path / "run" / "kept" / "output" / "results" / "histograms").is_dir()
    assert (tmp_path / "run" / "job.json").stat().st_size
    assert "exact" in lines[1]
    assert "not recovered" in lines[2]
