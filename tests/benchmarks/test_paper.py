"""The reproduction of the paper: its data, orderings that hold at any size, and a small version of the whole."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from benchmarks.datasets import bundled, bundled_counts
from benchmarks.paper import product
from benchmarks.paper.claims import CLAIMS
from benchmarks.paper.data import DATA, FINE, population, truth
from benchmarks.paper.experiments import EPSILONS, FULL, QUICK, Effort, settings
from benchmarks.paper.methods import METHODS, MOMENTS, PAPER, RANGES
from benchmarks.paper.product import run_through_product
from benchmarks.paper.reproduce import reproduce
from benchmarks.paper.run import measure_all
from benchmarks.paper.trials import Setting, measure
from hushgram.simulation import METRICS

# Data ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reports", "buckets"),
    [("beta", 100_000, 256), ("taxi", 2_189_968, 1024), ("income", 2_308_374, 1024), ("retirement", 178_012, 1024)],
)
def test_populations_have_the_papers_size(name, reports, buckets):
    assert population(name).sum() == reports == DATA[name].reports
    assert DATA[name].buckets == buckets
    assert truth(population(name), buckets).sum() == pytest.approx(1)


def test_retirement_is_the_data_itself_and_the_stand_ins_say_what_they_are():
    assert np.array_equal(population("retirement"), bundled_counts("retirement", FINE))
    for name in ("taxi", "income"):
        assert "stand-in" in DATA[name].origin
        assert f"{bundled_counts(name, FINE).sum():,}".replace(",", " ") in DATA[name].origin
        # Of 2 million values a point of the curve is off by 0.0004 at most; eight times that never comes by chance.
        assert METRICS["ks"](truth(population(name), 1024), bundled(name, 1024)) < 0.003


# Methods -------------------------------------------------------------------------------------------------------------


def test_methods_are_measured_on_the_metrics_of_the_papers_table():
    metrics_by_method = {method.name: set(method.metrics) & set(METRICS) for method in PAPER}
    assert {name for name, metrics in metrics_by_method.items() if metrics == set(RANGES)} == {"HH", "HaarHRR"}
    assert {name for name, metrics in metrics_by_method.items() if metrics == set(MOMENTS)} == {"SR", "PM"}
    others = {"SW+EMS", "SW+EM", "HH-ADMM", "CFO-16", "CFO-32", "CFO-64"}
    assert {name for name, metrics in metrics_by_method.items() if metrics == set(METRICS)} == others


def test_bins_take_the_oracle_with_the_lower_variance():
    """Randomized response has it where k - 2 < 3e^ε (paper, section 2.1)."""
    assert METHODS["CFO-16"].collection(2.0, 256).mechanism.name == "randomized_response"
    assert METHODS["CFO-64"].collection(2.0, 256).mechanism.name == "local_hashing"


def test_the_full_run_repeats_everything_a_hundred_times():
    full = settings(FULL)
    assert {setting.runs for setting in full} == {100}
    assert [replace(setting, runs=0) for setting in full] == [replace(setting, runs=0) for setting in settings(QUICK)]


# Trials --------------------------------------------------------------------------------------------------------------


def _measure(data, epsilon, buckets, runs, reports, *methods):
    rows = {}
    for names in methods:
        setting = Setting("shapes", data, epsilon, buckets, names, runs, None, reports)
        rows |= {(row.method, row.metric): row for row in measure(setting)}
    return rows


def test_the_result_of_a_method_does_not_depend_on_the_other_methods_measured():
    alone = _measure("beta", 1.0, 64, 3, 500, ("HH-ADMM",))
    with_others = _measure("beta", 1.0, 64, 3, 500, ("SW+EMS",), ("HH-ADMM", "HH"))
    assert alone.items() <= with_others.items()
    assert alone == _measure("beta", 1.0, 64, 3, 500, ("HH-ADMM",))


def test_methods_keep_the_order_that_must_hold():
    """Each by four standard errors or more at these seeds: another seed would undo one of them once in 10⁴."""
    beta = _measure("beta", 1.0, 256, 12, 20_000, ("SW+EMS", "SW+EM"), ("HH-ADMM", "HH"), ("CFO-16",), ("CFO-64",))
    beta |= _measure("beta", 1.0, 256, 12, 20_000, ("HaarHRR",))
    income = _measure("income", 4.0, 256, 12, 200_000, ("SW+EMS",), ("HH-ADMM",), ("CFO-16",))
    for rows, better, worse, metric in (
        (beta, "SW+EMS", "SW+EM", "w1"),
        (beta, "SW+EMS", "HH-ADMM", "w1"),
        (beta, "CFO-16", "CFO-64", "w1"),
        (beta, "SW+EMS", "HH", "range_0.1"),
        (beta, "SW+EMS", "HaarHRR", "range_0.1"),
        (beta, "HH-ADMM", "HH", "range_0.1"),
        (income, "HH-ADMM", "SW+EMS", "ks"),
        (income, "SW+EMS", "CFO-16", "ks"),
    ):
        gap = rows[worse, metric].mean - rows[better, metric].mean
        assert gap > 4 * np.hypot(rows[worse, metric].error, rows[better, metric].error), (better, worse, metric)


# The product, and the whole ------------------------------------------------------------------------------------------


def test_the_pipeline_and_the_arrays_agree(tmp_path, monkeypatch):
    rows, agreement = run_through_product(tmp_path / "a", [1.0], 64, 2000, 1)
    assert {row.method for row in rows} == {"SW+EMS", "HH-ADMM"}
    assert (agreement.collections, agreement.reports) == (2, 4000)
    assert agreement.farthest <= product.CLOSE
    honest = product._by_arrays
    monkeypatch.setattr(
        product, "_by_arrays", lambda collections, reports, seed: honest(collections, reports, seed + 1)
    )
    with pytest.raises(AssertionError, match="tally"):
        run_through_product(tmp_path / "b", [1.0], 64, 2000, 1)


@pytest.mark.slow
def test_a_small_reproduction_writes_page_figures_and_tables(tmp_path, capsys):
    runs = dict.fromkeys(QUICK.small, 2)
    tiny = Effort(
        "tiny",
        runs,
        runs,
        pipeline=1,
        epsilons=EPSILONS,
        rival_epsilons=(1.0,),
        shape_bandwidths=(0.2,),
        bandwidths=(0.1, 0.3),
        most_buckets=64,
        reports=500,
    )
    page = reproduce(tiny, tmp_path / "build", tmp_path / "docs").read_text()
    assert "**tiny**" in page
    assert all(claim.text in page for claim in CLAIMS)
    links = re.findall(r"\]\((paper/[^)]+)\)", page)
    assert len(links) == 11
    for link in links:
        assert 0 < (tmp_path / "docs" / link).stat().st_size < 100_000
    csv, parquet = (
        pl.read_csv(tmp_path / "build" / "results.csv"),
        pl.read_parquet(tmp_path / "build" / "results.parquet"),
    )
    assert csv.height == parquet.height
    keys = [name for name in parquet.columns if name not in ("mean", "error", "runs")]
    assert parquet.select(keys).is_duplicated().sum() == 0
    assert parquet["mean"].is_finite().all()
    capsys.readouterr()
    tiny_settings = settings(tiny)
    measure_all(tiny_settings, tmp_path / "build" / "kept")
    assert f"{len(tiny_settings)} of them kept" in capsys.readouterr().out


def test_the_paper_page_of_the_docs_links_existing_figures():
    docs = Path(__file__).parents[2] / "docs"
    links = re.findall(r"\]\((paper/[^)]+)\)", (docs / "paper.md").read_text())
    assert {docs / link for link in links} == set((docs / "paper").iterdir())
