"""Two windows or groups beside one another: whether they differ, and by how much."""

from hushgram.comparison.compare import Comparison
from hushgram.comparison.differences import Difference, DifferenceCurve
from hushgram.comparison.many import holm
from hushgram.comparison.score_test import same_distribution

__all__ = ["Comparison", "Difference", "DifferenceCurve", "holm", "same_distribution"]
