"""The central ε of a tally: what whoever sees counts, and not single reports, can learn about one device.

By the privacy blanket (Balle, Bell, Gascón, Nissim 2019): of n shuffled reports, two data sets that differ
in the value of one device are (ε, δ)-indistinguishable with

    δ = E[(Σ_{i ≤ n} V_i)₊] / n,  V = (R_v(y) - e^ε·R_w(y)) / ω(y) at y with probability ω(y), and 0 otherwise.

The law of the sum is one power of a Fourier transform. Everything that arithmetic needs errs to the safe side: V is put
on a grid by splitting each value between its two neighbours, which keeps its mean, so that the mean of the convex (·)₊
can only grow; what the transform folds over its end is bounded by Chernoff; rounding is bounded and added.
"""

from __future__ import annotations

import math
import sys
from numbers import Integral, Real

import numpy as np
from scipy.optimize import brentq

from hushgram._arrays import FloatArray
from hushgram._validation import describe
from hushgram.mechanisms.blanket import Blanket

MOST_REPORTS = 10**8
"""More reports count as this many, which is safe: reports that are added can only hide more."""
STEPS = 1 << 15
"""The steps of the grid, unless the sum's spread needs more of them."""
FINEST = 256
"""The most steps to the greatest value of V."""
MOST_STEPS = 1 << 20
"""No more memory than this; a bound that needs more is not given."""
REACH = 8.0
"""Standard deviations of the tilted sum that the grid covers to either side, at least."""
NEGLIGIBLE = 1e-6
"""The share of δ that may fold over the end of the grid."""
ROUNDING = 64 * sys.float_info.epsilon
"""Bounds the relative rounding of a step of the computation, several times over (Higham 2002, theorem 24.2)."""
ACCURACY = 5e-4
"""The share of the central ε that the search may leave."""
FEW_STEPS = 12
"""After as many steps along lines, the search goes on by halves."""


def central_epsilon(blanket: Blanket, reports: int, delta: float) -> float:
    """The least ε, up to some thousandths of it, for which the bound on δ is met; never more than the local one.

    >>> from hushgram.mechanisms import RandomizedResponse
    >>> blanket = RandomizedResponse(2, 1.0).blanket
    >>> [round(central_epsilon(blanket, reports, 1e-8), 3) for reports in (10, 10_000, 1_000_000)]
    [1.0, 0.056, 0.005]
    """
    ceiling, wanted = math.log1p(blanket.excess), math.sqrt(-math.log(delta))

    def margin(epsilon: float) -> float:
        """By how much √(-ln δ) is above the one wanted: for normal tails it is a straight line, nearly."""
        found = central_delta(blanket, epsilon, reports, NEGLIGIBLE * delta)
        return math.sqrt(-math.log(min(max(found, sys.float_info.min), 1.0))) - wanted

    before, at_before = 0.0, margin(0.0)
    if at_before >= 0:
        return 0.0
    low, high, steps = 0.0, ceiling, 0
    # The line of a normal law at first, then the one through the last two points.
    slope = math.sqrt(min(reports, MOST_REPORTS) / 2) / _tilted_deviation(*privacy_loss(blanket, 0.0), 0.0)
    epsilon = min(-at_before / slope, ceiling / 2)
    while high > low * (1 + ACCURACY):
        at, steps = margin(epsilon), steps + 1
        low, high = (low, epsilon) if at >= 0 else (epsilon, high)
        slope = (at - at_before) / (epsilon - before)
        before, at_before = epsilon, at
        # A hair beyond where the line ends, so that the other end of the bracket comes near, too.
        aim = (epsilon - at / slope) * (1 - math.copysign(ACCURACY / 3, at)) if slope > 0 else math.inf
        epsilon = aim if low < aim < high and steps < FEW_STEPS else math.sqrt(max(low, high / 16) * high)
    return high


def check_reports(reports: object) -> int:
    """A number of reports, of which there is one at least."""
    if isinstance(reports, bool) or not isinstance(reports, Integral) or int(reports) < 1:
        raise ValueError(f"reports must be a whole number of 1 or more, got {describe(reports)}")
    return int(reports)


def check_delta(delta: object) -> float:
    """A probability strictly between 0 and 1."""
    if isinstance(delta, bool) or not isinstance(delta, Real) or not 0 < float(delta) < 1:
        raise ValueError(f"delta must be between 0 and 1, and neither, got {describe(delta)}")
    return float(delta)


def central_delta(blanket: Blanket, epsilon: float, reports: int, accuracy: float = 1e-16) -> float:
    """A bound on the δ that belongs to a central ε; folding adds about `accuracy` to it at most.

    What is wanted is the tail of the sum, where rounding would drown a plain transform. So the law is tilted by e^(θV),
    with the θ that moves the sum's mean to zero, and the tilt is taken back value by value.
    """
    n = min(reports, MOST_REPORTS)
    values, masses = privacy_loss(blanket, epsilon)
    greatest = float(values[0])
    if greatest <= 0:
        return 0.0
    tilt = _centring_tilt(values, masses)
    deviation = _tilted_deviation(values, masses, tilt) * math.sqrt(n)
    farther = tilt + REACH / deviation
    needed = _negligible_above(n * _log_moment(values, masses, farther), farther, accuracy * n, deviation)
    # What folds over the lower end adds to the bound; it weighs e^(-2θ·reach), so that a small tilt asks for more room.
    room = min(max(math.log(1 / accuracy) / (2 * tilt * deviation) if tilt > 0 else 0.0, REACH), 4 * REACH)
    reach = max(min(needed, n * greatest), min(room * deviation, -n * float(values.min()))) + greatest
    step = greatest / min(max(math.floor(STEPS * greatest / (2 * reach)), 1), FINEST)
    steps = 2 ** math.ceil(math.log2(2 * reach / step))
    if steps > MOST_STEPS:
        return math.inf
    places, shares = _on_grid(values / step, masses)
    points = places * step
    moment = _log_moment(points, shares, tilt)
    law, rounding = _power(places, shares * np.exp(tilt * points - moment), n, steps)
    above = np.arange(1, steps // 2) * step
    inside = math.exp(min(n * moment, 700.0)) * float(
        (above * np.exp(-tilt * above)) @ (law[1 : steps // 2] + rounding)
    )
    folded = _tail(n * _log_moment(points, shares, farther), farther, steps // 2 * step)
    return (inside + folded) / n * (1 + ROUNDING * n) + sys.float_info.min


def privacy_loss(blanket: Blanket, epsilon: float) -> tuple[FloatArray, FloatArray]:
    """The values of V, the greatest first, and their probabilities."""
    growth, excess = math.expm1(epsilon), blanket.excess
    values = [excess - growth, -growth - excess * (1 + growth), -(1 + excess) * growth, -growth, 0.0]
    outside = excess * (blanket.apart + blanket.both)
    return np.array(values), np.array([blanket.apart, blanket.apart, blanket.both, blanket.neither, outside])


def _log_moment(values: FloatArray, masses: FloatArray, tilt: float) -> float:
    """ln E[e^(θV)]."""
    exponents = tilt * values
    greatest = float(exponents.max())
    return greatest + math.log(float(masses @ np.exp(exponents - greatest)))


def _centring_tilt(values: FloatArray, masses: FloatArray) -> float:
    """The θ ≥ 0 for which E[V·e^(θV)] = 0. There is one: E[V] = 1 - e^ε, and the greatest value is above zero."""

    def mean(tilt: float) -> float:
        return float((masses * values) @ np.exp(tilt * (values - values[0])))

    high = 1 / float(values[0])
    while mean(high) < 0:
        high *= 2
    return float(brentq(mean, 0.0, high)) if mean(0.0) < 0 else 0.0


def _tilted_deviation(values: FloatArray, masses: FloatArray, tilt: float) -> float:
    tilted = masses * np.exp(tilt * values - _log_moment(values, masses, tilt))
    return math.sqrt(float(tilted @ (values - tilted @ values) ** 2))


def _tail(log_moment: float, tilt: float, start: float) -> float:
    """A bound on E[S; S ≥ t]: s ≤ t·e^((s - t)/t), so that it is at most t·e^(-θt)·E[e^(θS)] for θ ≥ 1/t."""
    return start * math.exp(min(log_moment - tilt * start, 700.0))


def _negligible_above(log_moment: float, tilt: float, size: float, deviation: float) -> float:
    """A t beyond which the tail is of about this size; some rounds of t = (ln E[e^(θS)] + ln t - ln size)/θ find it."""
    start = deviation
    for _ in range(4):
        start = max((log_moment + math.log(start) - math.log(size)) / tilt, deviation)
    return start


def _on_grid(positions: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each value at its two neighbours on the grid, in the proportion that keeps the mean."""
    below = np.floor(positions)
    share = positions - below
    places, parts = np.concatenate([below, below + 1]), np.concatenate([masses * (1 - share), masses * share])
    return places[parts > 0], parts[parts > 0]


def _power(places: FloatArray, masses: FloatArray, n: int, steps: int) -> tuple[FloatArray, float]:
    """The law of the sum of n values on a grid that is closed to a circle, and a bound on the error of each entry.

    The transform of the few values is summed as it stands, and is exact to some units of rounding; its power is exact
    to n times as many, relative to each frequency.
    """
    circle = np.exp(-2j * np.pi * np.arange(steps) / steps)
    frequencies = np.arange(steps // 2 + 1)
    transform = np.zeros(frequencies.size, dtype=np.complex128)
    for place, mass in zip(places.astype(np.int64).tolist(), masses.tolist(), strict=True):
        transform += mass * circle[frequencies * (place % steps) % steps]
    sizes = np.abs(transform) ** n
    law = np.fft.irfft(sizes * np.exp(1j * n * np.angle(transform)), steps)
    error = ROUNDING * (n * 2 * float(sizes.mean()) + math.log2(steps) * float(np.linalg.norm(law)))
    return np.maximum(law, 0.0), error
