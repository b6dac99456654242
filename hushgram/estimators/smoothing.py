"""The strength of smoothing, chosen by cross-validation: by the likelihood of reports that a fit has not seen.

Reports are independent, so that splitting a tally at random gives independent tallies of the same law.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.em import Part, maximize

FOLDS = 5
STRONGER = tuple((4.0**power - 1) / 3 for power in range(2, 9))
WEAKER = tuple(0.25**power for power in range(1, 6))
"""Strengths to try, upwards and downwards from 1: the same curve takes more of it on narrower buckets."""
STEP_GAIN = 0.5
"""Minimum gain of a step in held-out log-likelihood, in nats."""
LEAST_GAIN = 4.0
"""Minimum gain of all steps together, in nats; a smaller one may be chance, and strength 1 stays."""
NEAR = 1e-4
"""Fits have converged when a step moves the distribution function by no more than this share of 1/√reports."""


def choose_strengths(parts: Sequence[Part]) -> FloatArray:
    """The strength of smoothing for each window: 1, the paper's, unless another clearly predicts its reports better.

    A window climbs upwards from 1, or else downwards, for as long as it gains.
    """
    folds = Folds.of(parts)
    strengths, gains = np.ones(len(parts[0].counts)), np.zeros(len(parts[0].counts))
    windows = folds.usable_windows
    plain, x = folds.held_out_likelihood(windows, 1.0)
    for ladder in (STRONGER, WEAKER):
        still = gains[windows] == 0
        climbing, reference, start = windows[still], plain[still], x[still]
        for strength in ladder:
            if not climbing.size:
                break
            likelihood, start = folds.held_out_likelihood(climbing, strength, start)
            gained = likelihood - reference > gains[climbing] + STEP_GAIN
            climbing, reference, start = climbing[gained], reference[gained], start[gained]
            strengths[climbing], gains[climbing] = strength, likelihood[gained] - reference
    return np.where(gains > LEAST_GAIN, strengths, 1.0)


def split_into_folds(tallies: Sequence[FloatArray], folds: int = FOLDS) -> list[IntArray]:
    """The tallies of one window, each split at random into folds × cells; equal windows alike, whatever is beside them.

    >>> [int(fold.sum()) for fold in split_into_folds([np.array([700.0, 300.0])])[0].T]
    [700, 300]
    """
    counts = [tally.astype("<i8") for tally in tallies]
    seed = int.from_bytes(hashlib.sha256(b"".join(tally.tobytes() for tally in counts)).digest(), "big")
    rng = np.random.default_rng(seed)
    return [rng.multinomial(tally, [1 / folds] * folds).T for tally in counts]


@dataclass(frozen=True)
class Folds:
    """For each mechanism the reports that a fold holds out, windows × folds × cells, and those of the other folds."""

    held: tuple[Part, ...]
    others: tuple[Part, ...]

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Folds:
        windows = [split_into_folds([part.counts[window] for part in parts]) for window in range(len(parts[0].counts))]
        held = [np.stack(counts).astype(np.float64) for counts in zip(*windows, strict=True)]
        both = list(zip(parts, held, strict=True))
        return cls(
            tuple(Part(part.mechanism, counts) for part, counts in both),
            tuple(Part(part.mechanism, part.counts[:, None] - counts) for part, counts in both),
        )

    @property
    def usable_windows(self) -> IntArray:
        """The windows with reports outside of each fold; with very few reports, one fold may hold all of them."""
        reports = np.sum([part.counts.sum(axis=2) for part in self.others], axis=0)
        return np.flatnonzero((reports > 0).all(axis=1))

    def held_out_likelihood(
        self, windows: IntArray, strength: float, start: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """The log-likelihood of held-out reports under fits to the others, and these fits, windows × folds × buckets.

        Fits are taken to convergence. A fit has not seen the reports that it is judged by, unless its start has.
        """
        others = [Part(part.mechanism, _rows(part.counts[windows])) for part in self.others]
        reports = np.sum([part.counts.sum(axis=1) for part in others], axis=0)
        x = maximize(
            others,
            smoothing=strength,
            stopping="converged",
            cdf_tolerances=NEAR / np.sqrt(reports),
            start=None if start is None else _rows(start),
        ).x
        likelihood = np.zeros(windows.size)
        for part in self.held:
            terms = _rows(part.counts[windows]) * np.log(part.mechanism.forward(x))
            likelihood += terms.sum(axis=1).reshape(-1, FOLDS).sum(axis=1)
        return likelihood, x.reshape(-1, FOLDS, x.shape[1])


def _rows(array: FloatArray) -> FloatArray:
    """Windows and their folds, one after the other."""
    return array.reshape(-1, array.shape[-1])
