"""Panes as a stream makes them, for the tests of what becomes of them."""

import numpy as np

from hushgram import Collection
from hushgram.schemas.records import Key, Pane
from hushgram.transforms.estimation import histogram, snapshots
from hushgram.transforms.tallies import Tallies
from tests.helpers.reports import HOUR, START

COLLECTION = Collection(name="c", low=0, high=1, buckets=4, epsilon=1)


def make_answer(group=None, reports=6, index=0, timing="early", generation=0, start=START, collection=COLLECTION):
    """The snapshot and the histogram of a pane."""
    counts = np.zeros(collection.mechanism.tally_length, dtype=np.int64)
    counts[0] = reports
    key, pane = Key(collection.name, group, start, start + HOUR), Pane(generation, index, timing)
    tallies = Tallies({collection.revision: (reports, counts)})
    return snapshots(collection, [(key, pane, tallies)])[0], histogram(key, pane, tallies)
