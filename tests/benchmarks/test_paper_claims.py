"""The paper's claims, judged on made-up tables: each can hold, and each can fail."""

import math

import numpy as np
import polars as pl
import pytest

from benchmarks.paper.claims import CLAIMS
from benchmarks.paper.data import DATA
from benchmarks.paper.experiments import BANDWIDTH_EPSILONS, BANDWIDTHS, BUCKETS, EPSILONS, SHAPE_BANDWIDTHS
from benchmarks.paper.methods import ALL, OURS, PAPER, RATIOS
from benchmarks.paper.page import judge_claims
from benchmarks.paper.reasons import REASONS
from benchmarks.paper.run import table_of
from benchmarks.paper.trials import ResultRow
from benchmarks.paper.verdicts import Duel, Table, Verdict, compare
from hushgram.mechanisms import best_bandwidth
from hushgram.simulation import Summary

JUDGES = {claim.key: claim.judge for claim in CLAIMS}


def as_published(method, data, metric, epsilon):
    """Errors of a world in which all that the paper says is true."""
    binned = {f"CFO-{c}": 1.6 + 0.1 * c / epsilon**2 + 32 / c for c in (16, 32, 64)}
    plain = {"SW+EMS": 1.0, "SW+EM": 1.2, "HH-ADMM": 1.5, "HH": 3.0, "HaarHRR": 3.0, "discrete SW+EMS": 1.02, **binned}
    plain |= {"SR": 1.0, "PM": 1.3} if epsilon < 1.5 else {"SR": 1.4, "PM": 1.0}
    if metric == "variance":
        plain |= {"SR": 2.0, "PM": 2.0}
    if metric == "quantiles":
        plain["HH-ADMM"] = min(binned.values())
    if data == "income" and metric in ("ks", "quantiles"):
        plain |= {"HH-ADMM": 0.45 / epsilon, "CFO-16": 100.0}
    if data == "income" and metric.startswith("range") and epsilon > 2:
        plain["HH-ADMM"] = 0.8
    if (data, metric) == ("taxi", "range_0.1"):
        plain["CFO-64"] = 0.95
    return plain.get(method, 1.0)


def make_table(errors=as_published, inverted=False, deviation=0.1):
    """A table of 100 runs with little noise; inverted, low errors are high and high ones low."""

    def make_row(figure, method, data, epsilon, buckets, bandwidth, metric, error):
        mean = 1 / error if inverted else error
        return ResultRow(figure, method, data, epsilon, buckets, bandwidth, metric, mean, deviation * mean / 10, 100)

    rows = [
        make_row("methods", method.name, data, epsilon, 256, None, metric, errors(method.name, data, metric, epsilon))
        for method in (*PAPER, *OURS)
        for data in DATA
        for epsilon in EPSILONS
        for metric in ALL
        if metric in method.metrics
    ]
    for data in DATA:
        for b in SHAPE_BANDWIDTHS:
            for ratio in (*RATIOS, 1.0):
                name = {0.0: "triangle", 1.0: "square"}.get(ratio, f"ratio {ratio}")
                rows.append(make_row("shapes", name, data, 1.0, 256, b, "w1", 2 - ratio))
        for epsilon in BANDWIDTH_EPSILONS:
            best = best_bandwidth(epsilon)
            for b in {*BANDWIDTHS, best}:
                for metric in ALL:
                    rows.append(make_row("bandwidths", "SW+EMS", data, epsilon, 256, b, metric, 1 + 9 * abs(b - best)))
        for epsilon in EPSILONS:
            for count in BUCKETS:
                distance = abs(math.log2(count / (256 if data == "beta" else 1024)))
                rows.append(make_row("buckets", "SW+EMS", data, epsilon, count, None, "w1", 1 + distance))
    return Table(table_of(rows))


# The paper says both that SW+EMS has the best quantiles and that SW+EM sometimes has: no table can satisfy both.
@pytest.mark.parametrize("key", sorted(JUDGES.keys() - {"quantiles-em"}))
def test_every_claim_holds_in_the_papers_world(key):
    verdict = JUDGES[key](make_table())
    assert verdict.judgement == "holds", verdict.numbers


# These say that two things are alike, or differ, which inverting a table does not change.
@pytest.mark.parametrize("key", sorted(JUDGES.keys() - {"buckets-differ", "discrete", "mean-near", "spread"}))
def test_no_claim_holds_when_the_table_is_inverted(key):
    assert JUDGES[key](make_table(inverted=True)).judgement != "holds"


def test_claims_of_likeness_fail_where_things_are_not_alike():
    def triple_errors(method, data, metric, epsilon):
        return as_published(method, data, metric, epsilon) * (3 if method in ("discrete SW+EMS", "SW+EMS") else 1)

    assert JUDGES["mean-near"](make_table(triple_errors)).judgement == "does not hold"
    assert JUDGES["discrete"](make_table(triple_errors)).judgement == "holds"
    skewed = make_table(lambda method, *rest: 9.0 if method == "discrete SW+EMS" else as_published(method, *rest))
    assert JUDGES["discrete"](skewed).judgement == "does not hold"
    assert JUDGES["spread"](make_table(deviation=0.7)).judgement == "does not hold"


def test_one_best_number_of_buckets_for_all_refutes_that_it_differs():
    table = make_table()
    table.of_buckets = {key: Summary(float(key[2]), 0.1, 100) for key in table.of_buckets}
    assert JUDGES["buckets-differ"](table).judgement == "does not hold"


def test_em_is_unstable_where_it_is_both_better_and_worse():
    def unstable(method, data, metric, epsilon):
        better = method == "SW+EM" and data == "beta"
        return 0.5 if better else as_published(method, data, metric, epsilon)

    assert JUDGES["quantiles-em"](make_table(unstable)).judgement == "holds"


def test_what_is_beyond_the_paper_changes_no_verdict():
    def wild(method, data, metric, epsilon):
        beyond = method in {other.name for other in OURS} - {"discrete SW+EMS"}
        return 0.01 if beyond else as_published(method, data, metric, epsilon)

    frame = make_table(wild, deviation=0.3).frame
    rivals = frame.filter(figure="methods", method="SW+EMS").with_columns(
        figure=pl.lit("rivals"), method=pl.lit("PriPL-Tree"), error=pl.lit(9.0)
    )
    plain = [verdict for _, verdict in judge_claims(make_table(deviation=0.3).frame)]
    assert [verdict for _, verdict in judge_claims(pl.concat([frame, rivals]))] == plain


def test_noise_is_not_taken_for_a_difference():
    """Equal means of 5 noisy runs differ, at 1 %, about once in 100: more than 25 of 1000 come once in 10⁵ seeds."""
    rng = np.random.default_rng(1)
    pairs = [[Summary.of(rng.normal(1, 0.3, 5)) for _ in range(2)] for _ in range(1000)]
    assert sum(compare(*pair) != 0 for pair in pairs) <= 25
    assert compare(Summary(1.0, math.nan, 1), Summary(2.0, math.nan, 1)) == 0
    assert compare(Summary(1.0, 0.01, 5), Summary(2.0, 0.01, 5)) == -1
    assert compare(Summary(2.0, 0.01, 5), Summary(1.0, 0.01, 5)) == 1


def test_a_duel_compares_with_the_best_rival():
    duel = Duel()
    duel.add("here", Summary(1.0, 0.01, 9), [Summary(2.0, 0.01, 9), Summary(4.0, 0.01, 9)])
    duel.add("there", Summary(8.0, 0.01, 9), [Summary(2.0, 0.01, 9), Summary(9.0, 0.01, 9)])
    assert (duel.lower, duel.higher, duel.ahead) == (["here"], ["there"], 1)
    assert duel.ratio == pytest.approx(math.sqrt(0.5 * 4))
    assert duel.always().judgement == "holds in part"


def test_a_claim_in_two_parts_holds_when_both_do():
    holds, fails, partly = Verdict("holds", "a"), Verdict("does not hold", "b"), Verdict("holds in part", "c")
    assert (holds & holds).judgement == "holds"
    assert (holds & fails).judgement == "holds in part"
    assert (fails & fails).judgement == "does not hold"
    assert (partly & holds) == Verdict("holds in part", "c; a")


def test_every_reason_belongs_to_a_claim_and_claims_have_unique_names():
    assert set(REASONS) <= set(JUDGES)
    assert len(JUDGES) == len(CLAIMS)
