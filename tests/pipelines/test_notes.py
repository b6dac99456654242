"""Warnings in words: honest devices are not accused of what their values alone may do."""

from dataclasses import replace
from pathlib import Path

from hushgram import Estimate
from hushgram.pipelines.formatting import NOTES, notes
from tests.helpers.tables import WAVE, make_snapshot

ROOT = Path(__file__).parents[2]


def test_the_misfit_warning_names_spiky_values_as_a_cause():
    assert NOTES["misfit"].short in notes(replace(make_snapshot(WAVE), fit=1e-9))
    assert "or the values are very spiky" in NOTES["misfit"].short
    assert "Where most values are one number, or a few, they may do so in most windows" in NOTES["misfit"].long
    assert "spiky" in Estimate.fit_pvalue.__doc__
    assert NOTES["misfit"].short in (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")


def test_the_heavy_end_warning_allows_for_values_that_are_there():
    for end in ("heavy_low", "heavy_high"):
        assert "where so many values really are there" in NOTES[end].long
