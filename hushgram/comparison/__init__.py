"""Two windows or groups beside one another: whether they differ, and by how much."""

from hushgram.comparison.score_test import same_distribution

__all__ = ["same_distribution"]
