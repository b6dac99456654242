"""The O(d) transition operators against an independent dense integration."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from hushgram.mechanisms import ContinuousSquareWave, GeneralWave, SquareWave

NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)


def _integrate(function, start, end, breaks):
    """Gauss-Legendre between the breaks: exact where the function is a polynomial of degree 7 between them."""
    points = np.unique(np.clip([start, *breaks, end], start, end))
    total = 0.0
    for low, high in itertools.pairwise(points):
        middle, half = (low + high) / 2, (high - low) / 2
        total += half * sum(w * function(middle + half * node) for node, w in zip(NODES, WEIGHTS, strict=True))
    return total


def _integrate_transition(wave):
    """P(cell j | bucket i), as the mean over the bucket of the overlap of cell and wave: all terms are positive."""
    grid, law = wave.grid, wave.law
    domain = grid.domain
    cell, plateau, ramp = grid.cell / domain, grid.plateau / domain, (grid.ramp - 1) / domain
    p_density, q_density = law.P / law.T * domain, law.Q / law.T * domain
    matrix = np.empty((wave.cells, wave.buckets))
    for i, j in itertools.product(range(wave.buckets), range(wave.cells)):
        low, high = j * cell, (j + 1) * cell

        def density_in_cell(v, low=low, high=high):
            """∫ over the cell of the wave that starts at v."""
            corners = [v, v + ramp, v + plateau, v + plateau + ramp]
            if ramp == 0:
                inside = max(0.0, min(high, v + plateau) - max(low, v))
                return q_density * (cell - inside) + p_density * inside

            def height(t):
                rise = np.clip((t - v) / ramp, 0, 1) - np.clip((t - v - plateau) / ramp, 0, 1)
                return q_density + (p_density - q_density) * rise

            return _integrate(height, low, high, corners)

        corners = [edge - corner for edge in (low, high) for corner in (0, ramp, plateau, plateau + ramp)]
        matrix[j, i] = wave.buckets * _integrate(density_in_cell, i / wave.buckets, (i + 1) / wave.buckets, corners)
    return matrix


@pytest.mark.parametrize("epsilon", [1e-8, 0.1, 1.0, 4.0, 12.0])
@pytest.mark.parametrize(
    ("buckets", "cells"), [(2, 2), (2, 7), (16, 16), (16, 5), (16, 61), (7, 40), (64, 64), (32, 200)]
)
def test_the_transition_of_the_continuous_square_wave(epsilon, buckets, cells):
    wave = ContinuousSquareWave(buckets, epsilon, output_buckets=cells)
    # At ε = 12 the floor is e⁻¹² of the wave whose two edges cancel above it: rounding weighs that much more there.
    np.testing.assert_allclose(wave.matrix(), _integrate_transition(wave), rtol=1e-12 if epsilon < 10 else 1e-10)


@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.4, 0.6, 0.8])
@pytest.mark.parametrize(("epsilon", "buckets", "cells"), [(1.0, 8, 8), (0.1, 4, 11), (4.0, 6, 9), (12.0, 2, 5)])
def test_the_transition_of_general_waves(ratio, epsilon, buckets, cells):
    wave = GeneralWave(buckets, epsilon, ratio, output_buckets=cells)
    np.testing.assert_allclose(wave.matrix(), _integrate_transition(wave), rtol=1e-10)


def _share_exactly(wave, bucket, cell):
    """P(cell | bucket) in rational numbers: a mixed difference of the trapezoid's second antiderivative."""
    grid, law = wave.grid, wave.law
    ramp, plateau, length = (grid.ramp - 1) * wave.buckets, grid.plateau * wave.buckets, grid.cell * wave.buckets

    def antiderivative(lag):
        return sum(
            sign * Fraction(max(lag - corner, 0) ** 3, 6 * ramp)
            for corner, sign in ((0, 1), (ramp, -1), (plateau, -1), (plateau + ramp, 1))
        )

    mixed = sum(
        (-1) ** (beyond_cell + beyond_bucket)
        * antiderivative((cell + 1 - beyond_cell) * length - (bucket + beyond_bucket) * grid.domain)
        for beyond_cell, beyond_bucket in itertools.product((0, 1), (0, 1))
    )
    return mixed / (grid.domain * wave.buckets) * Fraction(law.P - law.Q, law.T) + Fraction(law.Q * grid.cell, law.T)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("ratio", [0.0, 0.6, 0.95, 0.999, 0.99999])
@pytest.mark.parametrize(("buckets", "cells"), [(1024, 1024), (1024, 37), (300, 900)])
def test_the_running_sums_of_large_waves_lose_no_digits_that_matter(ratio, epsilon, buckets, cells):
    """From ramps of half the wave's width to ramps of a small part of a cell."""
    wave = GeneralWave(buckets, epsilon, ratio, output_buckets=cells)
    for bucket in (0, buckets // 2, buckets - 1):
        row = wave.forward(np.eye(buckets)[bucket])
        exact = np.array([float(_share_exactly(wave, bucket, cell)) for cell in range(cells)])
        np.testing.assert_allclose(row, exact, rtol=1e-9)


@pytest.mark.parametrize("epsilon", [1e-8, 0.5, 2.0, 12.0])
@pytest.mark.parametrize(("buckets", "bandwidth"), [(2, None), (3, 0.0), (64, None), (10, 0.95), (257, 0.1)])
def test_the_transition_of_the_discrete_square_wave(epsilon, buckets, bandwidth):
    wave = SquareWave(buckets, epsilon, bandwidth)
    rows, columns = np.indices((wave.cells, buckets))
    [law] = wave.laws
    band = (rows >= columns) & (rows < columns + law.width)
    expected = np.where(band, law.P / law.T, law.Q / law.T)
    np.testing.assert_allclose(wave.matrix(), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "wave",
    [
        SquareWave(100, 1.0),
        SquareWave(100, 1.0, widths=(0.5, 0.75, 1.0, 1.25)),
        ContinuousSquareWave(100, 1.0, output_buckets=37),
        GeneralWave(64, 2.0, 0.4),
        SquareWave(9, 1, 0.9),
    ],
    ids=str,
)
def test_backward_is_the_transpose_and_columns_are_distributions(wave):
    rng = np.random.default_rng(3)
    x, y = rng.random((4, wave.buckets)), rng.random((4, wave.cells))
    np.testing.assert_allclose((wave.forward(x) * y).sum(axis=1), (x * wave.backward(y)).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(wave.matrix().sum(axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(wave.backward(np.eye(wave.cells)), wave.matrix(), atol=1e-15)
    np.testing.assert_allclose(wave.forward(x[0]), wave.forward(x)[0], rtol=1e-13)
