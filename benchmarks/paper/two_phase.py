"""The variance from mechanisms that estimate a mean: half of the devices for the mean, the others for its distance.

A protocol of two collections (paper, section 6.3): the first one's mean is broadcast, the second collects (v - mean)².
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hushgram._arrays import FloatArray, check_finite_numbers
from hushgram.collection import Collection
from hushgram.sampling import collection_generator


def second_phase(first: Collection, mean: float) -> Collection:
    """The collection of squared distances to the mean that the first one found."""
    farthest = max(mean - first.low, first.high - mean)
    return replace(first, name=f"{first.name} variance", low=0.0, high=farthest**2, integer=False, unit="", previous=())


def squared_distances(first: Collection, values: npt.ArrayLike, mean: float) -> FloatArray:
    """The values that devices of the second phase report on; values outside the domain are clipped first."""
    return (np.clip(check_finite_numbers("values", values), first.low, first.high) - mean) ** 2


def simulate_variance(collection: Collection, values: npt.ArrayLike, seed: int | np.random.Generator) -> float:
    """Both phases on simulated devices, split at random; the estimated variance, in the collection's units squared."""
    checked = check_finite_numbers("values", values)
    rng = collection_generator(seed, "two phases", collection.name, collection.revision, checked)
    devices = rng.permutation(checked)
    half = devices.size // 2
    mean = collection.estimate(collection.tally(collection.simulate(devices[:half], rng))).mean
    second = second_phase(collection, mean)
    distances = squared_distances(collection, devices[half:], mean)
    return second.estimate(second.tally(second.simulate(distances, rng))).mean
