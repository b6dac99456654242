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


def _heights(path):
    """How high level lines stand above the base, in shares of the picture's height."""
    return [(116 - float(part[1:])) / 108 for part in path.get("d").split() if part.startswith("V")]


def _paths(distribution):
    """The filled density, the band, the whiskers, and the axis with the median."""
    return list(_parse_picture(distribution).svg.iter(f"{SVG}path"))


def test_wide_bins_are_level_and_have_whiskers_from_bound_to_bound():
    e = _estimate()
    band = e.readable_bins()
    wide = np.round(np.diff(band.edges) / 0.3) > 10  # of 600 buckets, 64 bins have 9 or 10
    assert wide.any()
    shares = e.probability(band.edges[:-1], band.edges[1:]) / np.diff(band.edges)
    filled, _, whiskers, _ = _paths(e)
    heights = _heights(filled)[:-1]
    scale = 1 / band.high.max()
    for share, low, high in zip(shares[wide], band.low[wide], band.high[wide], strict=True):
        assert np.isclose(heights, share * scale, atol=2e-3).any()
        assert any(np.isclose(_heights(whiskers), high * scale, atol=2e-3))
        assert f"{116 - 108 * low * scale:.1f} V{116 - 108 * high * scale:.1f}" in whiskers.get("d")
    assert whiskers.get("d").count("M") == wide.sum()


def test_fine_bins_show_the_curve_and_a_band_instead():
    c = Collection(name="c", low=0, high=1, epsilon=4.0, buckets=64)
    e = c.estimate(c.tally(c.simulate(np.random.default_rng(1).beta(2, 3, 500_000), seed=1)))
    band = e.readable_bins()
    assert band.low.size == 64
    filled, shaded, whiskers, _ = _paths(e)
    assert whiskers.get("d") == ""
    assert _heights(filled)[:-1] == pytest.approx(e.density / band.high.max(), abs=1e-3)
    assert _heights(shaded) == pytest.approx(
        [*band.high / band.high.max(), *band.low[::-1] / band.high.max()], abs=1e-3
    )


def test_few_reports_are_drawn_faintly_and_none_as_a_level():
    c = Collection(name="c", low=0, high=1, epsilon=1.0, buckets=64)
    few, none = (c.estimate(c.tally(c.simulate([0.3] * count, seed=1))) for count in (50, 0))
    for estimate in (few, none):
        assert _parse_picture(estimate).svg.get("opacity") == "0.45"
    assert _parse_picture(_estimate()).svg.get("opacity") is None
    filled, _, whiskers, _ = _paths(none)
    assert _heights(filled)[:-1] == [1.0] * 64
    assert whiskers.get("d") == ""


def test_a_law_that_is_not_known_supports_no_shape():
    e = Estimate(Domain(0, 1), 4, 1000, "ok", Solution(probabilities=np.array([0.1, 0.4, 0.3, 0.2])))
    assert _heights(_paths(e)[0])[:-1] == [1.0] * 4


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
