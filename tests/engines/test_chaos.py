"""The harness of `make chaos`, for a few moments: two faults at once on a real stream.

That it notices a loss is tested without engines, in `tests/benchmarks`.
"""

from benchmarks.chaos import run as chaos
from benchmarks.chaos.run import ChaosPlan
from benchmarks.chaos.schedule import KINDS, Fault, Injury
from tests.helpers.tools import run_or_skip

KINDS_BY_NAME = {kind.name: kind for kind in KINDS}


def test_a_stream_outlives_two_faults_at_once(tmp_path):
    injuries = (
        Injury(KINDS_BY_NAME["kill workers"], 0.0, 0.0, 0.3),
        Injury(KINDS_BY_NAME["stall database"], 0.5, 3.0, 0.7),
    )
    faults = iter([Fault(1, 0.5, injuries)])
    lines = []
    plan = ChaosPlan(5, faults, 30, tmp_path / "run", with_disks=False, until_last_letter=False, say=lines.append)
    [outcome] = run_or_skip(chaos.run, plan)
    assert outcome.problems == ()
    assert "exact" in lines[1]
