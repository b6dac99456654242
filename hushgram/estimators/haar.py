"""Leaves from Haar coefficients (HaarHRR; paper, section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.types import PARTS_LIMIT, Method, Solution, Uncertainty, Window
from hushgram.mechanisms.haar import HaarResponse, walsh_hadamard


def leaves_from_differences(differences: Sequence[FloatArray]) -> FloatArray:
    """The leaves of the tree with root 1 whose nodes differ, left minus right, as given: heights from 1 (lowest) up."""
    level = np.ones(1)
    for difference in reversed(differences):
        level = np.stack([level + difference, level - difference], axis=1).ravel() / 2
    return level


@dataclass(frozen=True)
class _Differences:
    """Left minus right of every node at one height, with covariance I / information - shared·(values)(values)ᵀ."""

    values: FloatArray
    information: float
    shared: float


def haar(window: Window, method: Method) -> Solution:
    """Every height's differences, averaged over the window's mechanisms by precision; buckets may be negative."""
    observed = _Observed([(mechanism, tally) for mechanism, tally in window if isinstance(mechanism, HaarResponse)])
    return Solution(probabilities=observed.leaves, uncertainty=observed.uncertainty)


class _Observed:
    """The differences at every height of a window's tree, and the leaves that follow from them."""

    def __init__(self, responses: Sequence[tuple[HaarResponse, IntArray]]) -> None:
        splits = [(response, response.split(tally)) for response, tally in responses]
        self.heights = [
            _observe([(response, split[height]) for response, split in splits]) for height in range(splits[0][0].height)
        ]
        self.leaves = leaves_from_differences([height.values for height in self.heights])

    def uncertainty(self) -> Uncertainty:
        parts = min(self.leaves.size, PARTS_LIMIT)
        covariance = np.zeros((parts, parts))
        for height in self.heights:
            span = parts // height.values.size
            if span < 2:
                continue  # within a part, what one half gains the other loses
            wave = np.kron(np.eye(height.values.size), np.repeat([1.0, -1.0], span // 2)[:, None]) / span
            common = wave @ np.clip(height.values, -1, 1)
            covariance += (wave @ wave.T) / height.information - height.shared * np.outer(common, common)
        return Uncertainty.of_parts(
            np.linspace(0, 1, parts + 1), self.leaves.reshape(parts, -1).sum(axis=1), covariance
        )


def _observe(observed: Sequence[tuple[HaarResponse, IntArray]]) -> _Differences:
    """A report stands for ±1/gap at every node; n·gap² of them is the information that a mechanism brings."""
    reports = np.array([counts.sum() for _, counts in observed], dtype=np.float64)
    information = reports * [response.law.gap**2 for response, _ in observed]
    if not reports.any():
        return _Differences(np.zeros(observed[0][1].shape[0]), observed[0][0].law.gap ** 2, 0.0)
    signs = np.zeros(observed[0][1].shape[0])
    for response, counts in observed:
        signs += response.law.gap * walsh_hadamard(counts[:, 1] - counts[:, 0])
    shares = information / information.sum()
    shared = np.divide(shares**2, reports, out=np.zeros_like(shares), where=reports > 0).sum()
    return _Differences(signs / information.sum(), float(information.sum()), float(shared))
