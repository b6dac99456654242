"""What the benchmarks of a stream see of its results."""

from itertools import pairwise

from benchmarks.streams import PaneWatch
from devtools.processes import eventually
from hushgram.transforms.folding import MERGED_AT, SNAPSHOTS, write_panes
from tests.helpers.tables import make_snapshot


def test_each_pane_is_seen_once_when_it_comes_however_files_are_folded(tmp_path):
    folder = tmp_path / "snapshots" / "collection=commute" / "date=2026-01-01"
    counts = list(range(100, 100 + 2 * MERGED_AT))
    with PaneWatch(tmp_path) as watch:
        for count in counts:
            write_panes(SNAPSHOTS, str(folder), "avro", [make_snapshot(reports=count)])
            eventually("the pane", lambda count=count: watch.panes() and watch.panes()[-1].reports == count)
    panes = watch.panes()
    assert len(list(folder.iterdir())) < len(counts)
    assert [pane.reports for pane in panes] == counts
    assert len({pane.window for pane in panes}) == 1
    assert all(before.visible_at < after.visible_at for before, after in pairwise(panes))
