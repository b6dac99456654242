"""`hushgram conform`: the reference passes, every mutant fails, and no program can make it wait or fill memory."""

import json
import sys
import time
import uuid
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hushgram import Collection
from hushgram.manifest import channels
from hushgram.mechanisms import MECHANISMS
from hushgram.pipelines.cli import command
from hushgram.pipelines.conform import program as programs
from hushgram.pipelines.conform import statistics
from hushgram.pipelines.conform.command import examine
from hushgram.pipelines.conform.free_draws import ODDS, Question, draw, examine_law, question_about, question_of
from hushgram.pipelines.conform.law import ReportLaw
from hushgram.pipelines.conform.program import Program, ProgramError
from hushgram.pipelines.conform.report import as_json, report_lines
from hushgram.pipelines.conform.uploads import examine_uploads
from hushgram.pipelines.conform.vectors import examine_vectors, vector_sets
from tests.helpers import mutants
from tests.helpers.clients import REFERENCE, load_reference
from tests.helpers.exact import compute_exact_law

MUTANTS = Path(mutants.__file__)
SETS = vector_sets()


class InProcess:
    """A client that is asked without a process around it."""

    def __init__(self, mutate=None):
        self.client, self.state = load_reference("mutant"), {}
        if mutate:
            mutate(self.client)

    def ask(self, request):
        try:
            return self.client.answer(request, self.state)
        except Exception as error:
            return {"refused": str(error)}


def questions(*names):
    return [question_of(part) for part in SETS if part.name in names]


DRAWN = questions("square_wave, linear", "square_wave, a total near 2^63", "haar, linear")


# The examination ------------------------------------------------------------------------------------------------------


def test_the_reference_conforms():
    """By chance it fails once in a million times."""
    result = examine([sys.executable, str(REFERENCE), "--conform"], DRAWN, 4000, 60.0)
    assert result.conforms, list(report_lines(result))
    assert result.vectors.cases == sum(len(part.cases) for part in SETS) > 2000


@pytest.mark.parametrize("mutate", mutants.SCRIPTED, ids=lambda mutate: mutate.__name__)
def test_vectors_find_every_fault_of_a_draw_a_place_a_check_or_a_ledger(mutate):
    assert examine_vectors(InProcess(mutate), SETS).failed > 0


def test_vectors_pass_the_reference_and_those_who_hide():
    assert examine_vectors(InProcess(), SETS).passed
    assert examine_vectors(InProcess(mutants.doubled_epsilon), SETS).passed


@pytest.mark.slow
@pytest.mark.parametrize("mutate", mutants.HIDDEN, ids=lambda mutate: mutate.__name__)
def test_free_draws_find_every_fault_that_hides_while_draws_are_scripted(mutate):
    """The slightest, a tenth more of ε, moves a share by 9 standard errors; 7 are needed, of one value of 12."""
    first, second = InProcess(mutate), InProcess(mutate)
    reports = 40_000 if mutate is mutants.epsilon_a_tenth_larger else 12_000
    results = (examine_law(first, second, question, reports, ODDS / len(DRAWN)) for question in DRAWN)
    assert any(result.faults for result in results)


@pytest.mark.parametrize("mutate", mutants.UPLOADING, ids=lambda mutate: mutate.__name__)
def test_messages_show_every_fault_of_ids_times_and_encoding(mutate):
    result = examine_uploads((InProcess(mutate), InProcess(mutate)), DRAWN[0])
    assert result.offered
    assert result.faults


def test_messages_of_the_reference_and_with_uuids_pass():
    """Six bits of a random UUID are fixed."""

    def uuids(client):
        client.secrets = mutants._Secrets(client.secrets.randbelow, lambda size: uuid.uuid4().bytes)

    for mutate in (None, uuids):
        result = examine_uploads((InProcess(mutate), InProcess(mutate)), DRAWN[0])
        assert result.offered
        assert not result.faults


def test_a_client_that_makes_no_messages_on_request_is_not_refused_for_it():
    class Silent(InProcess):
        def ask(self, request):
            return {"refused": "no"} if "upload" in request else super().ask(request)

    result = examine_uploads((Silent(), Silent()), DRAWN[0])
    assert not result.offered
    assert result.passed


def test_free_draws_measure_a_doubled_epsilon():
    client = InProcess(mutants.doubled_epsilon)
    [result] = [examine_law(client, client, one, 20_000, ODDS) for one in questions("square_wave, linear")]
    assert 1.5 < result.epsilon_lower < 2.0 < result.epsilon_upper
    assert any("1 was declared" in fault for fault in result.faults)


def test_the_seeded_generator_is_told_as_what_it_is():
    command = [sys.executable, str(MUTANTS), "seeded_generator"]
    result = examine(command, questions("square_wave, linear"), 4000, 60.0)
    assert not result.conforms
    assert any("came twice" in fault for law in result.laws for fault in law.faults)


# The law --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "seeded_hashing"])
def test_bins_have_the_probabilities_that_enumeration_of_all_draws_gives(mechanism):
    """With small words and grids, so that every draw can be tried."""
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=4, mechanism=mechanism)
    small = {"bits": 2} | ({"grid_steps": 16} if hasattr(collection.mechanism, "grid_steps") else {})
    if mechanism == "piecewise":
        small["output_buckets"] = 6
    tiny = replace(collection.mechanism, **small)
    for position in range(tiny.positions):
        exact = compute_exact_law(lambda below, position=position: tiny.perturb(position, below))
        bins = ReportLaw.of({"law": channels.law(tiny)}, position)
        assert bins.cells == tiny.cells
        summed = np.zeros(bins.probabilities.size)
        for cell, probability in exact.items():
            summed[bins.bins(np.array([cell]))[0]] += float(Fraction(probability))
        np.testing.assert_allclose(bins.probabilities, summed, atol=1e-12)


def test_bins_of_seeded_hashing_fit_its_reports():
    """By chance this fails once in a million times."""
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=40, mechanism="seeded_hashing")
    cells = collection.mechanism.perturb_many(np.full(50_000, 17), np.random.default_rng(1))
    fitting, other = (ReportLaw.of(collection.manifest(), place) for place in (17, 18))
    assert statistics.fit_pvalue(fitting, cells) > 1e-6 > statistics.fit_pvalue(other, cells)


@pytest.mark.parametrize("mechanism", ["square_wave", "haar", "local_hashing"])
def test_pvalues_of_honest_reports_are_not_smaller_than_they_say(mechanism):
    """200 p-values: of those below 0.1 there are at most 20 on average, and 45 or more once in ten million times."""
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=16, mechanism=mechanism)
    law, rng = ReportLaw.of(collection.manifest(), 3), np.random.default_rng(5)
    drawn = [collection.mechanism.perturb_many(np.full(5000, 3), rng) for _ in range(200)]
    assert sum(statistics.fit_pvalue(law, cells) < 0.1 for cells in drawn) < 45
    assert sum(statistics.serial_pvalue(law, cells) < 0.1 for cells in drawn) < 45
    assert all(statistics.find_repeat(law, list(pair)) is None for pair in pairwise(drawn))


def test_bounds_on_epsilon_hold_the_true_one():
    """At odds of 5 % in 100 trials; 20 or more misses would come once in ten million times."""
    collection = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=16)
    laws = tuple(ReportLaw.of(collection.manifest(), place) for place in (0, 15))
    rng = np.random.default_rng(6)
    missed = 0
    for _ in range(100):
        cells = tuple(collection.mechanism.perturb_many(np.full(3000, place), rng) for place in (0, 15))
        bounds = statistics.bound_epsilon(laws, cells, 0.05)
        missed += not bounds.lower <= 1.0 <= bounds.upper
    assert missed < 20
    assert stats.binom.sf(19, 100, 0.05) < 1e-6


def test_a_collection_of_ones_own_is_asked_for():
    collection = Collection(name="own", low=1, high=1e6, scale="log", epsilon=0.5, mechanism="general_wave")
    question, steps = question_about(collection), collection.mechanism.grid.domain
    assert [place for _, place in question.values] == [0, round(0.25 * steps), round(0.6 * steps), steps]
    client = InProcess()
    assert not examine_law(client, client, question, 4000, ODDS).faults


# Programs -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mutate", mutants.NO_CLIENTS, ids=lambda mutate: mutate.__name__)
def test_a_program_that_is_no_client_has_a_verdict(mutate, monkeypatch):
    monkeypatch.setattr(programs, "PATIENCE", 0.2)
    seconds = 1.0 if mutate is mutants.hangs else 60.0
    result = examine([sys.executable, str(MUTANTS), mutate.__name__], DRAWN, 1000, seconds)
    expected = {
        mutants.hangs: "did not answer within 1 s",
        mutants.dies: "ended with exit code 3 instead of an answer; it said: out of ideas",
        mutants.prints_garbage: "answered with what is no JSON: 'Segmentation fault'",
        mutants.prints_a_list: "answered with [1, 2], allowed: a JSON object",
        mutants.floods: f"printed more than {programs.LARGEST_ANSWER} bytes",
        mutants.floods_with_lines: "not asked for",
    }[mutate]
    assert not result.conforms
    assert expected in (result.stopped or "") + " ".join(result.vectors.examples if result.vectors else ())


def test_a_client_that_draws_too_few_has_a_verdict():
    result = examine([sys.executable, str(MUTANTS), "draws_too_few"], DRAWN, 1000, 60.0)
    assert "a list of 1000 whole numbers" in result.stopped


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"cells": [1]},
        {"cells": "12"},
        {"cells": [1, True]},
        {"cells": [0, 10**9]},
        {"cells": [-1, 0]},
        {"cells": [0.5, 1]},
    ],
    ids=str,
)
def test_answers_that_are_no_cells_are_refused(answer):
    class Odd:
        def ask(self, request):
            return answer

    question = DRAWN[0]
    with pytest.raises(ProgramError):
        draw(Odd(), question, question.values[0][0], 2, 24)


def test_a_program_that_cannot_be_started_has_a_verdict():
    assert "cannot be started" in examine(["/nowhere/client"], DRAWN, 1000, 1.0).stopped


def test_a_program_ends_with_all_that_it_started(monkeypatch):
    monkeypatch.setattr(programs, "PATIENCE", 0.2)
    script = "import subprocess; p = subprocess.Popen(['sleep', '3600']); print(p.pid, flush=True); p.wait()"
    with Program([sys.executable, "-c", script], 60.0) as program:
        child = int(program._answers.get(timeout=60))
        assert Path(f"/proc/{child}").exists()
    while not is_gone(child):  # the signal was sent; how soon it arrives, the machine decides
        time.sleep(0.01)


def is_gone(pid):
    """Ended; an orphan may stay as a zombie until whoever adopts it looks."""
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "\nState:\tZ" in status.read_text()


# The command ----------------------------------------------------------------------------------------------------------


def test_the_report_is_for_people_and_for_programs(capsys):
    arguments = ["conform", "--draws", "1000", "--json", "--", sys.executable, str(REFERENCE), "--conform"]
    assert command.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["conforms"] is True
    assert report["odds_of_failing_by_chance"] == 1e-6
    assert {law["name"].partition(",")[0] for law in report["laws"]} == set(MECHANISMS)


def test_a_client_that_fails_is_reported_with_examples():
    client = [sys.executable, str(MUTANTS), "shifted_cell"]
    result = examine(client, DRAWN[:1], 1000, 60.0)
    text = "\n".join(report_lines(result))
    assert "IT DOES NOT CONFORM" in text
    assert "cell is" in text
    assert as_json(result)["vectors"]["failed"] > 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--draws", "5"], "--draws: got 5"),
        (["--timeout", "0"], "--timeout: got 0"),
        (["--timeout", "nan"], "--timeout"),
    ],
)
def test_wrong_options_are_refused(arguments, message, capsys):
    assert command.main(["conform", *arguments, "--", "true"]) == 2
    assert message in capsys.readouterr().err


def test_a_question_has_several_values_in_order():
    for question in map(question_of, (part for part in SETS if part.tells_values_apart)):
        assert isinstance(question, Question)
        places = [place for _, place in question.values]
        assert len(places) >= 2
        assert places == sorted(places)
