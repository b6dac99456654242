"""Output in a terminal: tables, their width, and that nothing but text reaches a pipe or a log."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushgram import load_collections
from hushgram.pipelines.cli import command, tables
from hushgram.pipelines.cli.tables import table_lines, table_width
from hushgram.transforms import trust

ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
CELLS = st.text(st.sampled_from("abc[]{}:/群é0189,.±…-"), max_size=30)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:,}")


@given(st.lists(st.tuples(CELLS, NUMBERS, CELLS), min_size=1, max_size=8))
def test_a_table_holds_every_cell_unchanged_within_its_computed_width(rows):
    from rich.cells import cell_len

    heading = ["first", "number", "third"]
    lines = table_lines(heading, rows)
    assert len(lines) == len(rows) + 1
    assert max(map(cell_len, lines)) <= table_width(heading, rows)
    for line, row in zip(lines[1:], rows, strict=True):
        position = 0
        for cell in row:
            position = line.index(cell.rstrip(), position) + len(cell.rstrip())
    assert not any(map(ANSI.search, lines))


def test_numbers_stand_to_the_right_below_their_heading():
    lines = table_lines(["what", "± 95 %"], [["a", "± 0.1"], ["b", "± 12.5"], ["c", ""]])
    assert [line.rstrip() for line in lines] == ["  what  ± 95 %", "  a      ± 0.1", "  b     ± 12.5", "  c"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with a window in which an interval misses the truth, and one in which none does."""
    base = tmp_path_factory.mktemp("terminal")
    (base / "c.yaml").write_text("collections: {commute: {domain: {low: 0, high: 180}, buckets: 64, epsilon: 1}}")
    collections_option = ["--collections", f"{base}/c.yaml"]
    simulation = ["--values", "gamma(4,9)", "--reports", "20000", "--hours", "2", "--output", f"{base}/reports"]
    assert command.main(["simulate", *collections_option, *simulation]) == 0
    aggregation = ["--input", f"{base}/reports/*.avro", "--output", f"{base}/results"]
    assert command.main(["aggregate", *collections_option, *aggregation]) == 0
    lines = [json.loads(line) for line in (base / "reports" / "truth.jsonl").read_text().splitlines()]
    lines[0]["mean"] += 20
    (base / "truth.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return base


def test_show_puts_the_truth_below_and_marks_the_intervals_that_miss_it(results, capsys):
    assert command.main(["show", f"{results}/results", "--truth", f"{results}/truth.jsonl"]) == 0
    output = capsys.readouterr().out
    truths = [line for line in output.splitlines() if line.startswith("    in truth")]
    assert len(truths) == 2
    assert " *" in truths[0]
    missed = sum(line.count(" *") for line in truths)
    assert (
        f"\n{4 - missed} of 4 intervals hold the truth; * marks the others.\nOf 95 % intervals 1 in 20 misses it"
        in output
    )


def test_show_says_how_far_results_can_be_trusted(results, capsys):
    assert command.main(["show", f"{results}/results"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("  How far can I trust this?")
    [collection] = load_collections(results / "c.yaml").values()
    fewest = min(json.loads(line)["reports"] for line in (results / "truth.jsonl").read_text().splitlines())
    central = trust.central_epsilon(collection, {collection.revision: fewest})
    assert [re.sub(" +", " ", line.strip()) for line in lines[start + 1 :]] == [
        "ε: 1 towards whoever sees a report (square_wave)",
        f"central ε: {central:.3f} at most towards readers of the tallies alone, δ = 10⁻⁸",
        "intervals: for smooth distributions; may miss beside jumps and spikes",
        "1 % of liars: could shift a cumulative share by up to 2.7 percentage points",
    ]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_show_fits_the_terminal_and_keeps_whole_numbers(results, capsys, monkeypatch, width):
    arguments = ["show", f"{results}/results", "--truth", f"{results}/truth.jsonl"]
    assert command.main(arguments) == 0
    piped = capsys.readouterr().out
    assert not ANSI.search(piped)
    monkeypatch.setattr(tables, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    assert command.main(arguments) == 0
    lines = ANSI.sub("", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= width
    assert ("▁" in "".join(lines)) == (width >= 100)
    # No cell is cut: each row is the beginning of the piped one, as far as columns go.
    for line, full_line in zip(lines, piped.splitlines(), strict=True):
        numbers = re.findall(r"[0-9][0-9,.]*", line)
        assert numbers == re.findall(r"[0-9][0-9,.]*", full_line)[: len(numbers)]


def run_in_terminal(arguments):
    """The exit code and the output of a command that is started in a terminal."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hushgram", *arguments],
        stdin=child,
        stdout=child,
        stderr=child,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(child)
    output = b""
    try:
        while chunk := os.read(parent, 1 << 16):
            output += chunk
    except OSError:  # the child has closed its end
        pass
    finally:
        os.close(parent)
        process.wait()
    return process.returncode, output.decode()


@pytest.mark.slow
def test_a_terminal_gets_bold_headings_and_progress_on_one_line(results):
    code, output = run_in_terminal(["show", f"{results}/results"])
    assert code == 0
    assert "\x1b[1mwindow (UTC)" in output
    aggregation = ["--input", f"{results}/reports/*.avro", "--output", f"{results}/again"]
    code, output = run_in_terminal(["aggregate", "--collections", f"{results}/c.yaml", *aggregation])
    assert code == 0
    assert re.search(r"\r\x1b\[2K(running, \d+ s|[0-9,]+ reports read)", output)
    assert "\x1b[?25l" not in output, "the cursor is hidden, and a signal would leave it so"


def test_the_version_is_that_of_the_package(capsys):
    from importlib.metadata import version

    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out == f"hushgram {version('hushgram')}\n"
