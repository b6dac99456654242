"""A distribution as a table, and as the picture in a notebook."""

import sys
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushgram import Collection, Domain, Estimate
from hushgram.estimators.types import Solution

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["<script>alert(1)</script>", "\"'><img src=x onerror=y>", "&amp;", "]]>"]
COLUMNS = ["low", "high", "probability", "density", "cdf", "cdf_low", "cdf_high"]


def _estimate(**options):
    parameters = {"low": 1, "high": 181, "epsilon": 1.0, "buckets": 600, **options}
    c = Collection(name="c", **parameters)
    return c.estimate(c.tally(c.simulate(c.domain.from_unit(np.random.default_rng(1).beta(2, 5, 5000)), seed=1)))


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": "log"}, {"integer": True, "low": 0, "high": 299, "buckets": 300}, {"buckets": 16}],
    ids=str,
)
def test_the_table_holds_buckets_and_the_curve_with_its_band(options):
    e = _estimate(**options)
    frame = e.to_frame()
    assert isinstance(frame, pl.DataFrame)
    assert frame.columns == COLUMNS
    column = {name: frame[name].to_numpy() for name in COLUMNS}
    assert column["low"][1:] == pytest.approx(column["high"][:-1])
    assert column["probability"] == pytest.approx(e.probabilities)
    assert column["density"] * (column["high"] - column["low"]) == pytest.approx(e.probabilities)
    assert column["cdf"] == pytest.approx(np.cumsum(e.probabilities))
    assert ((column["cdf_low"] <= column["cdf"]) & (column["cdf"] <= column["cdf_high"])).all()
    # Where a bucket ends at a point of the band, its bounds are the band's.
    band = e.band()
    indices = np.argmin(np.abs(column["high"][:, None] - band.points[1:]), axis=0)
    exact = np.abs(column["high"][indices] - band.points[1:]) < 1e-9
    assert exact.sum() >= 8
    assert column["cdf_low"][indices][exact] == pytest.approx(band.low[1:][exact])
    assert column["cdf_high"][indices][exact] == pytest.approx(band.high[1:][exact])


def test_the_table_falls_back_to_pandas_and_without_both_names_what_to_install(monkeypatch):
    e = _estimate(buckets=16)
    monkeypatch.setitem(sys.modules, "polars", None)
    frame = e.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == COLUMNS
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match="pip install polars, or pip install pandas"):
        e.to_frame()


def test_a_broken_library_is_not_mistaken_for_a_missing_one(monkeypatch):
    def fail(name):
        raise ModuleNotFoundError("No module named 'inner'", name="inner")

    monkeypatch.setattr("hushgram.display.import_module", fail)
    with pytest.raises(ModuleNotFoundError, match="inner"):
        _estimate(buckets=16).to_frame()


def _parse_picture(distribution) -> SimpleNamespace:
    root = ET.fromstring(distribution._repr_html_())
    svg = root.find(f"{SVG}svg")
    texts = [] if svg is None else [text.text or "" for text in svg.iter(f"{SVG}text")]
    return SimpleNamespace(root=root, svg=svg, texts=texts, caption=root.find("figcaption").text)


def test_the_picture_shows_the_domain_and_the_numbers():
    e = _estimate(unit="minutes")
    picture = _parse_picture(e)
    assert picture.texts == ["1", "minutes", "181"]
    low, high = e.interval("mean")
    assert f"mean {e.mean:.6g} minutes (95 %: {low:.6g} to {high:.6g})" in picture.caption
    assert f"median {e.median:.6g} minutes" in picture.caption
    assert picture.caption.startswith("5,000 reports · mean")


def test_the_outline_rises_with_the_density():
    probabilities = np.array([0.1, 0.4, 0.3, 0.2])
    e = Estimate(Domain(0, 1), 4, 1000, "ok", Solution(probabilities=probabilities))
    outline = _parse_picture(e).svg.find(f"{SVG}path").get("d")
    tops = [float(part[1:]) for part in outline.split() if part.startswith("V")][:-1]
    assert (116 - np.array(tops)) / 108 == pytest.approx(probabilities / 0.4, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=40) | st.sampled_from(["<script>alert(1)</script>", "\"'><img src=x onerror=y>", "&amp;", "]]>"])
)
def test_hostile_units_stay_text(unit):
    e = Estimate(Domain(0, 1, unit=unit), 2, 10, "too_few", Solution(probabilities=np.array([0.5, 0.5])))
    picture = _parse_picture(e)
    assert picture.texts[1] == "".join(c if c.isprintable() else "\ufffd" for c in unit)
    assert {element.tag for element in picture.root.iter()} == {
        *("figure", "figcaption"), *(f"{SVG}{tag}" for tag in ("svg", "path", "text")),
    }  # fmt: skip
    assert "too few" in picture.caption


def test_a_mean_only_estimate_has_numbers_and_no_picture():
    picture = _parse_picture(_estimate(mechanism="piecewise"))
    assert picture.svg is None
    assert "mean" in picture.caption
    assert "median" not in picture.caption
