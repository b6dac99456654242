"""Trees of frequencies made consistent: HH by least squares, HH-ADMM also non-negative (paper, sections 4.2, 4.3, B).

A tree is a list of arrays from the root down; the children of node i at one level are nodes βi … βi + β - 1 below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.frequencies import Frequencies, combine, project_onto_simplex
from hushgram.estimators.goodness_of_fit import pearson
from hushgram.estimators.types import PARTS_LIMIT, Method, Solution, Uncertainty, Window
from hushgram.mechanisms.hierarchy import Hierarchy

Tree = list[FloatArray]

ADMM_TOLERANCE = 1e-6
ADMM_ITERATIONS = 20_000
LEAST_WEIGHT = 1e-9
"""The weight of a level without reports, as a share of the largest: zero would leave its nodes undetermined."""


def make_consistent(tree: Sequence[FloatArray], weights: FloatArray) -> Tree:
    """The tree nearest to `tree` in weighted least squares in which every node is the sum of its children.

    Two passes: upwards each node becomes the best average of itself and its descendants, downwards each family shares
    what its parent has over. An infinite weight for the root keeps it as given.
    """
    leaves = tree[-1].size
    own = weights * [leaves / level.size for level in tree]
    below = np.cumsum(own[::-1])[::-1]
    best: Tree = [tree[-1]]
    for level in range(len(tree) - 2, -1, -1):
        sums = best[0].reshape(tree[level].size, -1).sum(axis=1)
        # own / below is 1 where the weight is infinite
        share = own[level] / below[level] if np.isfinite(own[level]) else 1.0
        best.insert(0, share * tree[level] + (1 - share) * sums)
    result = [best[0]]
    for nodes in best[1:]:
        family = nodes.reshape(result[-1].size, -1)
        excess = result[-1] - family.sum(axis=1)
        result.append((family + (excess / family.shape[1])[:, None]).ravel())
    return result


def fit_nonnegative(tree: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """The leaves of the consistent, non-negative tree nearest to `tree` in weighted least squares: exact.

    The cost of giving a subtree the total s is convex, and its derivative λ(s) piecewise linear. Upwards, every node's
    s(λ) is kept as sorted breakpoints; at the root λ is chosen so that s is the root; downwards each node takes s(λ)
    and hands on what λ is left for its children.
    """
    top, *functions = _totals_by_price(tree, weights)
    price, parents = top.price(tree[0]), tree[0]
    for values, weight, function in zip(tree[1:], weights[1:], functions, strict=True):
        price = np.repeat(price, values.size // parents.size)
        parents = _share_out(function.at(price), parents)
        price = np.where(parents > 0, price - weight * (parents - values), -np.inf)
    return parents


@dataclass(frozen=True)
class _Totals:
    """s(λ) of every node of a level, one row each: zero up to the first break, then linear and ever steeper."""

    breaks: FloatArray
    totals: FloatArray
    slopes: FloatArray

    def at(self, price: FloatArray) -> FloatArray:
        """Each row's s at its own λ."""
        piece = (self.breaks <= price[:, None]).sum(axis=1) - 1
        row, inside = np.arange(piece.size), piece >= 0
        past = np.where(inside, price - self.breaks[row, piece], 0.0)
        return np.where(inside, self.totals[row, piece] + self.slopes[row, piece] * past, 0.0)

    def price(self, totals: FloatArray) -> FloatArray:
        """Each row's λ at which s is its own total."""
        piece = (self.totals <= totals[:, None]).sum(axis=1) - 1
        row = np.arange(piece.size)
        return self.breaks[row, piece] + (totals - self.totals[row, piece]) / self.slopes[row, piece]


def _totals_by_price(tree: Sequence[FloatArray], weights: FloatArray) -> list[_Totals]:
    """The functions of the root's children together, then of every node of each level, the leaves last."""
    breaks = (-weights[-1] * tree[-1])[:, None]
    functions = [_Totals(breaks, np.zeros_like(breaks), np.full_like(breaks, 1 / weights[-1]))]
    for values, weight in zip(tree[-2::-1], weights[-2::-1], strict=True):
        children = functions[0]
        # A sum of piecewise linear functions breaks where one of them does, by as much.
        breaks = children.breaks.reshape(values.size, -1)
        steps = np.diff(children.slopes, axis=1, prepend=0.0).reshape(values.size, -1)
        order = np.argsort(breaks, axis=1)
        breaks = np.take_along_axis(breaks, order, axis=1)
        slopes = np.cumsum(np.take_along_axis(steps, order, axis=1), axis=1)
        totals = np.zeros_like(breaks)
        np.cumsum(slopes[:, :-1] * np.diff(breaks, axis=1), axis=1, out=totals[:, 1:])
        if values is not tree[0]:  # the root is given, and has no cost of its own
            breaks = breaks + weight * (totals - values[:, None])
            slopes = slopes / (1 + weight * slopes)
        functions.insert(0, _Totals(breaks, totals, slopes))
    return functions


def _share_out(taken: FloatArray, parents: FloatArray) -> FloatArray:
    """`taken` as shares of exactly what the parents have: rounding must not lose or make mass on the way down."""
    family = taken.reshape(parents.size, -1)
    sums = family.sum(axis=1, keepdims=True)
    even = np.full_like(family, 1 / family.shape[1])
    shares = np.divide(family, sums, out=even, where=sums > 0)
    return (shares * parents[:, None]).ravel()


def fit_by_admm(
    tree: Sequence[FloatArray], weights: FloatArray, tolerance: float = ADMM_TOLERANCE
) -> tuple[FloatArray, int, bool]:
    """The paper's algorithm 2 for the same problem, ρ = 1: the leaves, the iterations, and whether they sufficed.

    Kept as the published method and as a check on `fit_nonnegative`, which is exact and faster.
    """
    ends = np.cumsum([level.size for level in tree])[:-1]
    target = np.concatenate(tree)
    weight = np.repeat(np.where(np.isfinite(weights), weights, 1.0), [level.size for level in tree])
    ones = np.ones(len(tree))
    x = target.copy()
    mu, nu, eta = (np.zeros_like(x) for _ in range(3))
    for iteration in range(1, ADMM_ITERATIONS + 1):
        y = (x - target + mu) / (1 + weight)
        z = np.concatenate(make_consistent(np.split(x + nu, ends), ones))
        w = np.concatenate([project_onto_simplex(level) for level in np.split(x + eta, ends)])
        before = x
        x = ((y + target - mu) + (z - nu) + (w - eta)) / 3
        mu += x - target - y
        nu += x - z
        eta += x - w
        if max(np.abs(x - before).max(), np.abs(x - z).max(), np.abs(x - w).max()) < tolerance:
            return np.split(w, ends)[-1], iteration, True
    return np.split(w, ends)[-1], ADMM_ITERATIONS, False


def hh(window: Window, method: Method) -> Solution:
    """Least squares alone: unbiased, but single buckets may be negative; meant for range queries."""
    observed = _Observed(window, method)
    leaves = make_consistent(observed.tree, observed.weights)[-1]
    return Solution(probabilities=leaves, uncertainty=observed.uncertainty, fit=observed.fit)


def hh_admm(window: Window, method: Method) -> Solution:
    """Least squares under the constraints: every bucket non-negative, their sum 1."""
    observed = _Observed(window, method)
    if method.solver == "exact":
        leaves, iterations, converged = fit_nonnegative(observed.tree, observed.weights), 1, True
    else:
        leaves, iterations, converged = fit_by_admm(observed.tree, observed.weights)
    return Solution(iterations, converged, leaves, uncertainty=observed.uncertainty, fit=observed.fit)


class _Observed:
    """The frequencies of every level of a window, root first, with the weight that each level has in the fit."""

    def __init__(self, window: Window, method: Method) -> None:
        self.hierarchies = [(mechanism, tally) for mechanism, tally in window if isinstance(mechanism, Hierarchy)]
        self.branching = self.hierarchies[0][0].branching
        parts = [(hierarchy, hierarchy.split(tally)) for hierarchy, tally in self.hierarchies]
        self.levels: list[Frequencies] = [
            combine([(hierarchy.oracles[level], split[level]) for hierarchy, split in parts])
            for level in range(parts[0][0].height)
        ]
        precision = np.array([level.precision for level in self.levels])
        weights = precision / precision.max() if method.level_weights == "variance" else (precision > 0) * 1.0
        self.tree = [np.ones(1), *(level.estimate for level in self.levels)]
        self.weights = np.concatenate([[np.inf], np.maximum(weights, LEAST_WEIGHT)])

    def fit(self) -> float | None:
        """Of the nearest tree that could be: the reports of each level against what their oracle would report."""
        leaves = fit_nonnegative(self.tree, self.weights)
        cells: list[tuple[FloatArray, IntArray]] = []
        for hierarchy, tally in self.hierarchies:
            for oracle, counts in zip(hierarchy.oracles, hierarchy.split(tally), strict=True):
                if counts.any():
                    cells.append((oracle.forward(leaves.reshape(oracle.buckets, -1).sum(axis=1)), counts))
        return pearson(cells)

    def uncertainty(self) -> Uncertainty:
        """Of the fit before it is made non-negative: linear in the frequencies, hence with a covariance in closed form.

        Least squares on a tree splits into contrasts among siblings, one space for each level ℓ. With m_ℓ leaves below
        a node and λ_ℓ = Σ_(k≥ℓ) w_k·m_k, level k enters the contrasts of level ℓ ≤ k with the factor w_k / λ_ℓ.
        """
        beta, leaves = self.branching, self.tree[-1].size
        most = min(PARTS_LIMIT, *(level.most_runs for level in self.levels))
        depth = max(level for level in range(len(self.tree)) if beta**level <= most)
        parts = beta**depth
        below = np.array([leaves / level.size for level in self.tree])
        reach = np.cumsum((self.weights[1:] * below[1:])[::-1])[::-1]
        covariance = np.zeros((parts, parts))
        for k, level in enumerate(self.levels, start=1):
            nodes = min(level.estimate.size, parts)  # nodes deeper than the parts act through their part alone
            lift = np.zeros((parts, nodes))
            for contrast in range(1, min(k, depth) + 1):
                scale = self.weights[k] / reach[contrast - 1] * (leaves / parts) * below[k]
                lift += scale * (
                    _same_block(parts, nodes, beta**contrast) / below[contrast]
                    - _same_block(parts, nodes, beta ** (contrast - 1)) / below[contrast - 1]
                )
            starts = np.arange(nodes) * (level.estimate.size // nodes)
            covariance += lift @ level.covariance(starts) @ lift.T
        centre = make_consistent(self.tree, self.weights)[depth]
        return Uncertainty.of_parts(np.linspace(0, 1, parts + 1), centre, covariance)


def _same_block(rows: int, columns: int, blocks: int) -> FloatArray:
    """1 where row and column, each cut into `blocks` equal blocks, lie in the same one."""
    row, column = np.arange(rows) // (rows // blocks), np.arange(columns) // (columns // blocks)
    return (row[:, None] == column).astype(np.float64)
