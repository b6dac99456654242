"""Answers with several numbers of buckets: those of a flat shape are alike, those of a hill within a bucket are not."""

import numpy as np

from benchmarks import bucket_counts
from benchmarks.bucket_counts import coarsened, compare


def test_a_flat_shape_has_the_same_answer_with_any_number_of_buckets():
    whole, fine = compare(("uniform", 10_000, 1.0))
    assert 0 <= fine <= whole < 0.01


def test_a_hill_that_is_narrower_than_the_widest_buckets_has_not(monkeypatch):
    monkeypatch.setattr(bucket_counts, "DRAWS", 2)
    whole, fine = compare(("needle", 1_000_000, 1.0))
    assert fine < whole
    assert whole > 0.1


def test_coarser_buckets_hold_what_the_finer_ones_in_them_do():
    np.testing.assert_allclose(coarsened(np.arange(8.0), 2), [6.0, 22.0])
