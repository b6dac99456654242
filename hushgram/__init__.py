"""hushgram: the distribution of a number across many devices, without any device's number.

>>> from hushgram import Collection
>>> commute = Collection(name="commute", low=0, high=180, buckets=64, epsilon=1.0, unit="minutes")
>>> 0 <= commute.report(37.5) < commute.randomizer.cells
True
"""

from hushgram.checks import CollectionError
from hushgram.collection import Collection
from hushgram.domain import Domain
from hushgram.estimate import Estimate, NotEstimableError
from hushgram.loading import load_collections
from hushgram.windows import Windows

__all__ = ["Collection", "CollectionError", "Domain", "Estimate", "NotEstimableError", "Windows", "load_collections"]
