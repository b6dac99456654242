"""Bounds of shares and averages that hold with a wanted confidence for every distribution."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from hushgram._arrays import FloatArray, IntArray
from hushgram.any_shape.pilot import Design
from hushgram.any_shape.weights import Side, Weighed, Weighting

REPRESENTATIVES = 16
"""The number of questions in a row whose ramps are chosen; the others take those of the nearest."""


class Bounds:
    """A bound is wrong with probability `tail`, whatever the distribution is."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.weighting = Weighting(design)
        self.buckets = self.weighting.buckets
        self._shares = design.counts / design.reports

    def shares(
        self, start: IntArray, end: IntArray, tail: float, side: Side, *, alike: bool = False, expected: bool = False
    ) -> FloatArray:
        """Of the share of values in buckets from edge `start` to edge `end`, for each pair of edges.

        Questions that are `alike` are in an order in which neighbours are best answered with similar ramps. What is
        only `expected` is so by the pilot.
        """
        cells = self.weighting.cells if expected else self._shares
        bounds = ((start == 0) & (end == self.buckets)).astype(np.float64)  # of nothing and of all, no report tells
        unknown = (start < end) & (bounds == 0)
        if unknown.any():
            first, last = start[unknown], end[unknown]
            ramps = self._choose_ramps(first, last, tail, side, alike)
            weighed = self.weighting.weigh_shares(first, last, ramps, side, cells)
            bounds[unknown] = np.clip(self._bound(weighed, tail, side), 0.0, 1.0)
        return bounds

    def average(self, numbers: FloatArray, tail: float, side: Side) -> float:
        """Of the average of numbers, one for each bucket."""
        weights = self.weighting.for_averages(numbers[None, :], side)
        [bound] = self._bound(Weighed.of(weights, self._shares), tail, side)
        return float(np.clip(bound, numbers.min(), numbers.max()))

    def _choose_ramps(self, start: IntArray, end: IntArray, tail: float, side: Side, alike: bool) -> IntArray:
        """The ramp with the best bound, were the pilot true."""
        lengths = np.array([0, *(2**power for power in range(max(1, (self.buckets - 1).bit_length())))])
        count = min(start.size, REPRESENTATIVES) if alike else start.size
        tried = np.linspace(0, start.size - 1, count).round().astype(np.int64)
        first, last = (np.repeat(edges[tried], lengths.size) for edges in (start, end))
        weighed = self.weighting.weigh_shares(first, last, np.tile(lengths, count), side, self.weighting.cells)
        best = np.argmin(side * self._bound(weighed, tail, side).reshape(count, -1), axis=1)
        nearest = np.rint(np.linspace(0, count - 1, start.size)).astype(np.int64)
        return lengths[best][nearest]

    def _bound(self, weighed: Weighed, tail: float, side: Side) -> FloatArray:
        """The mean and its margin, by the normal law, or by Bernstein's inequality where reports are few.

        Of the normal law it is the score interval, as for a count: to the deviation z·s it adds what reports with the
        extreme weight might, which are so rare that none was seen. The inequality is that of Maurer and Pontil,
        Empirical Bernstein Bounds and Sample Variance Penalization (2009), for independent numbers of a known span.
        """
        reports = self.design.reports
        if not self.design.few:
            z = -float(ndtri(tail))
            extreme = weighed.greatest - weighed.mean if side > 0 else weighed.mean - weighed.least
            rare = z**2 / (2 * reports) * extreme
            return weighed.mean + side * (rare + np.sqrt(z**2 * weighed.variance / reports + rare**2))
        if reports < 2:
            return np.full(weighed.mean.shape, side * np.inf)
        odds = math.log(2 / tail)
        deviation = np.sqrt(2 * odds * weighed.variance / (reports - 1))
        return weighed.mean + side * (deviation + 7 * odds / (3 * (reports - 1)) * (weighed.greatest - weighed.least))
