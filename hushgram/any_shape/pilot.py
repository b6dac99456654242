"""The pilot: a thinned part of the reports, which chooses weights, and the others, which are weighed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.any_shape.reach import Joint
from hushgram.estimators.em import Part, maximize
from hushgram.estimators.smoothing import split_into_folds
from hushgram.mechanisms.base import Mechanism, Transition
from hushgram.mechanisms.general_wave import GeneralWave
from hushgram.mechanisms.randomized_response import RandomizedResponse
from hushgram.mechanisms.square_wave import Band

FOLDS = 10
"""The number of folds that the reports are divided into; the pilot is one of them."""
FEW = 1000
"""With fewer reports there is no pilot: weights are those for evenly spread values, and all reports are weighed."""
EVEN = 0.1
"""The share of evenly spread values that is mixed into the pilot: no cell may look impossible."""

MOST_REFINED = 1024
"""Waves of real numbers are weighed on twice their buckets, if not on more than this: places within matter less."""
NEAR = 0.05
"""Its fit has converged when a step moves the distribution function by no more than this share of 1/√reports."""


@dataclass(frozen=True, eq=False)
class Design:
    """What weights are chosen by and weighed with: the transition, x and its cells by the pilot, and other counts."""

    transition: Joint
    x: FloatArray
    counts: FloatArray
    few: bool

    @property
    def reports(self) -> float:
        return float(self.counts.sum())


def as_transitions(mechanisms: Sequence[Mechanism]) -> list[Transition]:
    """Randomized response is a wave of one cell. Waves of real numbers do not know of buckets, and may have more."""
    if all(isinstance(mechanism, GeneralWave) for mechanism in mechanisms):
        waves = [mechanism for mechanism in mechanisms if isinstance(mechanism, GeneralWave)]
        finer = waves[0].buckets * (2 if 2 * waves[0].buckets <= MOST_REFINED else 1)
        return [replace(wave, buckets=finer, output_buckets=wave.cells) for wave in waves]
    return [
        Band(mechanism.buckets, mechanism.law) if isinstance(mechanism, RandomizedResponse) else mechanism
        for mechanism in mechanisms
        if isinstance(mechanism, (RandomizedResponse, Transition))
    ]


def make_design(tallies: Sequence[tuple[Mechanism, IntArray]]) -> Design:
    """Equal tallies are thinned alike. How many reports a mechanism has tells nothing of x, and is taken as given."""
    transitions = as_transitions([mechanism for mechanism, _ in tallies])
    counts = [each.astype(np.float64) for _, each in tallies]
    buckets = transitions[0].buckets
    x = np.full(buckets, 1 / buckets)
    few = sum(each.sum() for each in counts) < FEW
    if not few:
        held = [folds[0].astype(np.float64) for folds in split_into_folds(counts, FOLDS)]
        counts = [each - own for each, own in zip(counts, held, strict=True)]
        seen = [Part(part, own[None]) for part, own in zip(transitions, held, strict=True) if own.any()]
        if seen:
            categories = isinstance(tallies[0][0], RandomizedResponse)
            near = np.array([NEAR / np.sqrt(sum(own.sum() for own in held))])
            fitted = maximize(seen, smoothing=float(not categories), stopping="converged", cdf_tolerances=near).x[0]
            x = (1 - EVEN) * fitted + EVEN * x
    kept = [(part, own) for part, own in zip(transitions, counts, strict=True) if own.any()]
    total = sum(own.sum() for _, own in kept)
    joint = Joint(
        tuple(part for part, _ in kept),
        tuple(float(own.sum() / total) for _, own in kept),
        tuple(own.size for _, own in kept),
    )
    return Design(joint, x, np.concatenate([own for _, own in kept]), few)
