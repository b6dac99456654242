"""The comparison with other libraries: its figures, its tables, and its output where a peer is not available.

The peers themselves are installed by `make peers` alone.
"""

import ast
import doctest
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.peers import __main__ as command
from benchmarks.peers import answers, environment, ours, tables
from benchmarks.peers.abilities import ABILITIES, LIBRARIES
from benchmarks.peers.answers import (
    Audit,
    Estimates,
    Speed,
    errors,
    is_distribution,
    read_decoded,
    read_estimates,
    read_speeds,
)
from benchmarks.peers.environment import HERE, PEERS, REQUIREMENTS, Peer, PeerError, install, interpreter, pinned, run
from benchmarks.peers.scripts import answering
from benchmarks.peers.tables import Library, audits, details, figure, overview, rate
from hushgram.simulation import Summary

SHAPES = {("beta", 1.0): (2, 4)}
GOOD = [[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]]


def encode_answer(**method):
    return json.dumps({"version": "1", "methods": {"OLH": method}})


# Figures -------------------------------------------------------------------------------------------------------------


def test_errors_are_those_of_each_run_against_its_own_truth():
    truths = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0]])
    summaries = errors(truths, np.array([[1.0, 0, 0, 0], [0, 0, 1.0, 0]]), projected=False)
    assert summaries["W1"] == Summary.of([0.0, 0.25])
    assert summaries["KS"] == Summary.of([0.0, 1.0])
    assert summaries["MSE"] == Summary.of([0.0, 0.5])


def test_estimates_are_projected_only_on_request():
    truths, estimates = np.array([[1.0, 0.0]] * 2), np.array([[1.5, -0.5]] * 2)
    assert errors(truths, estimates, projected=True)["MSE"].mean == 0
    assert errors(truths, estimates, projected=False)["MSE"].mean == 0.25
    assert not is_distribution(estimates)
    assert is_distribution(truths)


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(0, n))))
def test_the_audited_epsilon_is_below_the_plain_ratio_and_grows_with_less_confidence(counts):
    audit = Audit(*counts)
    strict, loose = audit.epsilon_at_least(0.999), audit.epsilon_at_least(0.9)
    assert strict <= loose
    assert loose <= (math.log(audit.own / audit.other) if audit.own and audit.other else math.inf)


def test_the_bound_agrees_with_scipys_exact_interval():
    audit = Audit(1000, 370, 130)
    low = stats.binomtest(370, 1000).proportion_ci(0.999, "exact").low
    high = stats.binomtest(130, 1000).proportion_ci(0.999, "exact").high
    assert audit.epsilon_at_least() == pytest.approx(math.log(low / high))


def test_an_audit_finds_a_mechanism_that_exceeds_its_epsilon():
    """Randomised response at ε = 2: with 20 000 reports of each value, a bound below 1 is nowhere near possible."""
    rng = np.random.default_rng(1)

    def device(value):
        return value if rng.random() < math.exp(2) / (math.exp(2) + 1) else 1 - value

    counts = answering.audit(
        answering.PeerMethod(device, lambda _: None, lambda report, value: report == value), 2, 20_000
    )
    assert 1.5 < Audit(**counts).epsilon_at_least() <= 2


def test_an_audit_ignores_a_report_that_supports_both_values():
    method = answering.PeerMethod(
        lambda value: {0, 1} if value == 0 else {1}, lambda _: None, lambda report, v: v in report
    )
    assert answering.audit(method, 2, 10) == {"reports": 10, "own": 0, "other": 0}


@pytest.mark.parametrize("method", ours.METHODS)
def test_our_own_methods_keep_their_epsilon_in_the_same_audit(method):
    """Seeded; by chance one in a thousand would be accused. GRR of 256 values leaves the least to be seen."""
    audit = ours.audit(ours.build_collection(method, 256, 1.0), 20_000, np.random.default_rng(3))
    if method == "seeded OLH":
        assert audit is None
    else:
        assert (0 if method == "GRR" else 0.8) < audit.epsilon_at_least() <= 1


def test_our_own_estimates_cover_every_method_data_set_and_epsilon():
    values = {"beta": np.random.default_rng(1).integers(0, 16, (2, 1000))}
    estimates = ours.measure_accuracy(values, 16, (0.5, 1.0), 1.0, 100, seed=1)
    assert set(estimates) == set(ours.METHODS)
    assert all(
        estimate.runs["beta", epsilon].shape == (2, 16) for estimate in estimates.values() for epsilon in (0.5, 1.0)
    )
    assert all(is_distribution(estimates[name].runs["beta", 1.0]) for name in list(ours.METHODS)[:2])


def test_the_sizing_of_a_timed_server_ends_at_the_largest_number(monkeypatch):
    monkeypatch.setattr(answering, "LARGEST", 5000)
    seconds, reports = answering.time_server(len, list(range(100)), seconds=1e9)
    assert len(reports) == 5000
    assert reports[:100] == reports[100:200]
    assert seconds >= 0


@pytest.mark.parametrize("module", [answers, environment, tables], ids=lambda module: module.__name__)
def test_the_examples_in_its_documentation_hold(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


# Answers -------------------------------------------------------------------------------------------------------------


def test_an_answer_is_read_as_it_was_written():
    text = encode_answer(estimates={"beta": {"1.0": GOOD}}, audit={"reports": 10, "own": 5, "other": 2})
    estimates = read_estimates(text, SHAPES)["OLH"]
    assert estimates.runs["beta", 1.0].tolist() == GOOD
    assert estimates.audit == Audit(10, 5, 2)
    half = {"reports": 100, "seconds": 2.0}
    text = encode_answer(device=half, server={"reports": 4000, "seconds": 4.0}, estimate_of_cells=[0.5, 0.5])
    assert read_speeds(text) == {"OLH": Speed(50.0, 1000.0, 4000)}
    assert read_decoded(text)["OLH"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "not what a script of ours writes"),
        ("[]", "not what a script of ours writes"),
        ('{"methods": {}}', "names no method"),
        (encode_answer(estimates={}), "no estimates by OLH of beta at ε = 1.0"),
        (encode_answer(estimates={"beta": {"1.0": GOOD[:1]}}), r"not \(2, 4\) numbers"),
        (encode_answer(estimates={"beta": {"1.0": [[math.nan] * 4] * 2}}), r"not \(2, 4\) numbers"),
    ],
)
def test_an_invalid_answer_of_a_peer_is_reported(text, message):
    with pytest.raises(PeerError, match=message):
        read_estimates(text, SHAPES)


def test_missing_or_zero_times_of_a_peer_are_reported():
    for entry in ({}, {"device": {"reports": 1, "seconds": 0}, "server": {"reports": 1, "seconds": 1}}):
        with pytest.raises(PeerError, match="no times of OLH"):
            read_speeds(encode_answer(**entry))


# Tables --------------------------------------------------------------------------------------------------------------

TRUTH = np.array([[0.25] * 4] * 2)


def make_library(failure=None):
    estimates = Estimates({("beta", 1.0): np.array([[0.5, 0.5, 0.5, -0.5]] * 2)}, Audit(1000, 900, 10))
    return Library("other 1.0", {} if failure else {"OLH": estimates}, {"OLH": Speed(1e5, 2e3, 10**4)}, failure)


def parse_cells(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]


def test_every_row_of_a_table_has_as_many_cells_as_its_header():
    for entry in (make_library(), make_library("it cannot be installed here: no such host")):
        for text in (
            overview([entry], {"beta": TRUTH}, 1.0),
            details([entry], "beta", TRUTH, (1.0,)),
            audits([entry], 1.0),
        ):
            rows = parse_cells(text)
            assert len(rows) >= 3
            assert {len(row) for row in rows} == {len(rows[0])}


def test_an_estimate_that_is_not_a_distribution_has_a_raw_row_and_a_projected_row():
    rows = parse_cells(details([make_library()], "beta", TRUTH, (1.0,)))[2:]
    assert [row[2] for row in rows] == ["as it is", "projected"]
    assert rows[0][3:] != rows[1][3:]


def test_an_audit_above_epsilon_is_called_a_broken_promise():
    assert parse_cells(audits([make_library()], 1.0))[2][-1] == "promise broken"
    assert parse_cells(audits([make_library()], 5.0))[2][-1] == "nothing against it"


def test_a_missing_peer_has_a_row_with_the_reason():
    row = parse_cells(overview([make_library("no network")], {"beta": TRUTH}, 1.0))[2]
    assert row[:2] == ["other 1.0", "not measured: no network"]
    assert set(row[2:]) == {"–"}


def test_a_pipe_in_a_reason_does_not_break_the_table():
    assert len(parse_cells(overview([make_library("a | b")], {"beta": TRUTH}, 1.0))[2]) == 7


@given(st.floats(1e-9, 10), st.floats(1e-9, 1))
def test_a_figure_has_one_or_two_digits_of_its_error(mean, error):
    parts = figure(Summary(mean, error, 5), 1.0).split(" ± ")
    assert float(parts[1]) == pytest.approx(error, rel=0.5)
    assert float(parts[0]) == pytest.approx(mean, abs=error)


@given(st.floats(1, 1e12))
def test_a_rate_is_right_to_five_per_cent(per_second):
    number, _, unit = rate(per_second).partition(" ")
    assert float(number) * {"": 1, "k": 1e3, "M": 1e6}[unit] == pytest.approx(per_second, rel=0.051)


# The environment, and the whole where there is none ------------------------------------------------------------------


def test_every_peer_is_pinned_and_has_its_script_and_its_column():
    pins = pinned(REQUIREMENTS.read_text())
    for peer in PEERS:
        assert {peer.distribution, *peer.extra_requirements} <= set(pins)
        assert (HERE / "scripts" / f"{peer.script}.py").exists()
    assert list(LIBRARIES) == ["hushgram", *(peer.distribution for peer in PEERS)]
    assert all(len(cells) == len(LIBRARIES) for cells in ABILITIES.values())


@pytest.mark.parametrize("path", sorted((HERE / "scripts").glob("*.py")), ids=lambda path: path.name)
def test_a_script_is_python_3_11_and_needs_nothing_of_hushgram(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 11))
    compile(tree, str(path), "exec")
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules = {name for name in imported if name.split(".")[0] in ("hushgram", "schemas", "transforms", "benchmarks")}
    assert modules <= {"benchmarks.peers.scripts.answering"}


def test_an_environment_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "venv").write_text("a file where the environment should be")
    with pytest.raises(PeerError, match="its environment cannot be made: "):
        interpreter(tmp_path / "venv")


def test_a_missing_interpreter_is_reported(tmp_path):
    with pytest.raises(PeerError, match="it cannot be installed here: No such file"):
        install(PEERS[0], tmp_path / "python")


def test_a_script_that_fails_is_reported_with_its_last_line(tmp_path):
    with pytest.raises(PeerError, match=r"its script failed: .*no_such_script"):
        run(Peer("x", "no_such_script"), Path(sys.executable), tmp_path, "accuracy")


def test_without_any_peer_the_tables_are_complete_and_say_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "BUILD", tmp_path)
    (tmp_path / "venv").write_text("a file where the environment should be")
    command.main(["--runs", "2", "--reports", "1000", "--seconds", "0.01"])
    output = capsys.readouterr().out
    for peer in PEERS:
        assert (
            output.count(
                f"| {peer.distribution} {pinned(REQUIREMENTS.read_text())[peer.distribution]} | not measured: "
            )
            == 4
        )
    assert "Square Wave, EMS (default)" in output


@pytest.mark.parametrize("arguments", [["--runs", "1"], ["--reports", "10"], ["--seconds", "0"], ["--peers"]])
def test_invalid_options_end_with_exit_code_2(arguments):
    completed = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *arguments], capture_output=True, text=True, cwd=HERE.parents[1]
    )
    assert completed.returncode == 2
    assert completed.stderr.splitlines()[-1].startswith("python -m benchmarks.peers: error: ")
