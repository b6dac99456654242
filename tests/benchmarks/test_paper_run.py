"""A run of the paper's experiments that is stopped goes on where it was, unless what its results depend on changed."""

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.paper import fingerprint
from benchmarks.paper.fingerprint import ROOT, code_fingerprint, essence, import_closure
from benchmarks.paper.run import measure_all
from benchmarks.paper.trials import Setting, measure

METHODS, RIVALS = "benchmarks.paper.trials", "benchmarks.paper.rivals.measure"
TINY = Setting("shapes", "beta", 1.0, 16, ("CFO-16",), 2, None, 200)


def _names(module):
    return {str(path.relative_to(ROOT.resolve())) for path in import_closure(module)}


def test_results_depend_on_what_measures_them_and_on_nothing_else():
    methods, rivals = _names(METHODS), _names(RIVALS)
    needed = {"benchmarks/paper/data.py", "hushgram/sampling.py", "hushgram/estimators/log_spline/search.py"}
    assert needed <= methods < rivals
    assert rivals - methods == {
        f"benchmarks/paper/rivals/{name}.py"
        for name in ("__init__", "factorization", "measure", "pripl_tree", "segments")
    }
    others = ("display.py", "config.py", "beam.py", "planning/", "cli/", "transforms/", "page.py", "claims.py")
    assert not [name for name in rivals if any(other in name for other in others)]


def test_nothing_is_loaded_later():
    """Measuring loads no file of ours that importing did not: the fingerprint misses nothing."""
    program = """
import sys
from benchmarks.paper.methods import METHODS
from benchmarks.paper.rivals.measure import RIVALS, measure_rival
from benchmarks.paper.trials import Setting, measure
def loaded():
    return {name for name in sys.modules if name.partition(".")[0] in ("hushgram", "benchmarks")}
before = loaded()
for name in METHODS:
    measure(Setting("methods", "beta", 1.0, 64, (name,), 1, None, 200))
for name in RIVALS:
    measure_rival(Setting("rivals", "beta", 1.0, 64, (name,), 1, None, 200))
print(sorted(loaded() - before))
"""
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1", "x = 1  # the least", True),
        ("def f():\n    return 1", 'def f():\n    """One."""\n\n    return (1)', True),
        ("x = 1", "x = 2", False),
        ("def f(): return 'a'", "def f(): return 'b'", False),
        ("f(1)", "", False),
    ],
)
def test_comments_and_docstrings_are_no_part_of_a_program(one, other, same):
    assert (essence(one) == essence(other)) is same


def test_the_fingerprint_changes_with_programs_data_and_libraries(tmp_path, monkeypatch):
    program, data = tmp_path / "program.py", tmp_path / "taxi.npz"
    program.write_text("x = 1")
    data.write_bytes(b"values")
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    monkeypatch.setattr(fingerprint, "BUNDLED", tmp_path)
    monkeypatch.setattr(fingerprint, "import_closure", lambda module: [program])
    seen = []
    for change in (
        lambda: None,
        lambda: program.write_text("x = 2"),
        lambda: data.write_bytes(b"others"),
        lambda: monkeypatch.setattr(fingerprint, "version", lambda library: "99"),
    ):
        change()
        seen.append(code_fingerprint.__wrapped__("any"))
    assert len(set(seen)) == len(seen)
    program.write_text("x = 2  # as before")
    assert code_fingerprint.__wrapped__("any") == seen[-1]


def test_what_was_measured_before_a_failure_is_kept(tmp_path, capsys):
    good = [replace(TINY, epsilon=epsilon) for epsilon in (1.0, 2.0)]
    with pytest.raises(KeyError, match="no such method"):
        measure_all([*good, replace(TINY, methods=("no such method",))], tmp_path, processes=1)
    capsys.readouterr()
    rows = measure_all(good, tmp_path, processes=1)
    assert "2 of them kept" in capsys.readouterr().out
    assert rows == [row for setting in good for row in measure(setting)]
    assert not list(tmp_path.glob("*.part"))


def test_a_run_that_is_asked_to_end_keeps_what_it_has(tmp_path, capsys):
    program = f"""
from pathlib import Path
from benchmarks.paper.run import end_when_asked, measure_all
from benchmarks.paper.trials import Setting
end_when_asked()
settings = [Setting("shapes", "beta", 1 + k / 1000, 16, ("CFO-16",), 2, None, 200) for k in range(2000)]
measure_all(settings, Path({str(tmp_path)!r}))
"""
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.PIPE, text=True) as run:
        while not list(tmp_path.glob("*.json")):
            assert run.poll() is None
            time.sleep(0.01)
        run.terminate()
        # The pipe ends when the last of its processes does.
        assert run.stderr is not None
        assert run.stderr.read() == "stopped; the same command goes on from here\n"
    assert run.returncode == 1
    kept = len(list(tmp_path.glob("*.json")))
    assert 0 < kept < 2000
    assert not list(tmp_path.glob("*.part"))
    measure_all([replace(TINY, epsilon=1 + k / 1000) for k in range(kept)], tmp_path, processes=1)
    assert ", 0 of them kept" not in capsys.readouterr().out


def test_rows_of_other_code_are_measured_again(tmp_path, capsys, monkeypatch):
    measure_all([TINY], tmp_path, processes=1)
    [path] = tmp_path.glob("*.json")
    # Kept rows are taken as they are...
    path.write_text(json.dumps([{**row, "mean": 7.0} for row in json.loads(path.read_text())]))
    assert {row.mean for row in measure_all([TINY], tmp_path, processes=1)} == {7.0}
    # ... but not those of another program.
    monkeypatch.setattr("benchmarks.paper.run.code_fingerprint", lambda module: "another")
    assert measure_all([TINY], tmp_path, processes=1) == measure(TINY)
    assert len(list(Path(tmp_path).glob("*.json"))) == 2
