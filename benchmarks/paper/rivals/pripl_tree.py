"""PriPL-Tree: a tree of frequencies over line segments that a few devices have drawn (Wang et al., VLDB 2024).

A fifth of the devices report by a Square Wave; EM and EMS turn that into line segments. The others report nodes of a
tree over the segments by optimised unary encoding (OUE). Section 3 of the publication, with its constants; where the
text leaves a choice, `segments.py` says what ours is. Two rounds: devices of the second wait for the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.paper.rivals.segments import Segments, fit_segments
from hushgram import Collection
from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators.frequencies import project_onto_simplex
from hushgram.simulation import simulate_tally

FIRST_PHASE = 0.2
"""The share of devices that report by the wave."""

Span = tuple[int, int]
"""The first segment below a node, and the first behind it."""


def estimate_by_pripl_tree(population: IntArray, epsilon: float, buckets: int, rng: np.random.Generator) -> FloatArray:
    """The probability of each bucket, from simulated devices with `population` values in each of their fine buckets."""
    first = rng.multivariate_hypergeometric(population, round(FIRST_PHASE * population.sum()), method="marginals")
    others = (population - first).reshape(buckets, -1).sum(axis=1)
    segments = fit_segments(*_read_wave(first, epsilon, buckets, rng), math.sqrt(oue_variance(epsilon, others.sum())))
    tree = remove_nodes(balanced_tree(0, segments.masses.size), segments.bounds)
    users = np.add.reduceat(others, segments.bounds[:-1])
    observed = dict(draw_frequencies(tree, users, int(users.sum()), epsilon, rng))
    return spread(segments, make_consistent(tree, observed, segments.masses))


def _read_wave(
    population: IntArray, epsilon: float, buckets: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The histograms of EM and of EMS, from the same reports."""
    wave = Collection(
        name="wave", low=0, high=1, buckets=buckets, epsilon=epsilon, mechanism="square_wave", estimator="em"
    )
    tally = simulate_tally(wave, population, rng)
    smooth = Collection(name="wave", low=0, high=1, buckets=buckets, epsilon=epsilon, mechanism="square_wave")
    jagged, smoothed = (collection.estimate(tally).probabilities for collection in (wave, smooth))
    assert jagged is not None
    assert smoothed is not None
    return jagged, smoothed


# The tree -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A run of neighbouring segments; a leaf has one, any other node the runs of its children."""

    span: Span
    children: tuple[Node, ...] = ()

    @property
    def height(self) -> int:
        return 1 + max((child.height for child in self.children), default=0)


def balanced_tree(first: int, end: int) -> Node:
    """The binary tree over segments `first` to `end`, exclusive."""
    if end - first == 1:
        return Node((first, end))
    middle = (first + end + 1) // 2
    return Node((first, end), (balanced_tree(first, middle), balanced_tree(middle, end)))


def remove_nodes(tree: Node, bounds: IntArray) -> Node:
    """The tree without those inner nodes, children first, whose removal makes range queries more accurate (3.4.2)."""
    for span in list(_inner_spans(tree)):
        without = _remove(tree, span)
        if query_error(without, bounds) < query_error(tree, bounds):
            tree = without
    return tree


def _inner_spans(node: Node) -> Iterator[Span]:
    """Of all inner nodes below this one."""
    for child in node.children:
        if child.children:
            yield from _inner_spans(child)
            yield child.span


def _remove(node: Node, span: Span) -> Node:
    """Its children belong to its parent then."""
    children: list[Node] = []
    for child in node.children:
        children += child.children if child.span == span else [_remove(child, span)]
    return replace(node, children=tuple(children))


def query_error(tree: Node, bounds: IntArray) -> float:
    """The noise of the nodes that answer a range query, on average over all ranges, up to a factor (equation 7).

    A node answers the ranges that hold it but not its parent (equation 8). A path shares its devices among its nodes.
    """
    return sum(_errors_below(tree, 1.0, bounds))


def _errors_below(parent: Node, users: float, bounds: IntArray) -> Iterator[float]:
    for child in parent.children:
        share = users / child.height
        yield (_ranges_that_hold(child, bounds) - _ranges_that_hold(parent, bounds)) / share
        yield from _errors_below(child, users - share, bounds)


def _ranges_that_hold(node: Node, bounds: IntArray) -> int:
    first, end = node.span
    return (int(bounds[first]) + 1) * (int(bounds[-1] - bounds[end]) + 1)


# What devices report --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Frequency:
    """A noisy frequency, and the variance of its noise."""

    value: float
    variance: float

    def average(self, other: Frequency) -> Frequency:
        """Both, weighted by their precision."""
        total = self.variance + other.variance
        share = other.variance / total if total > 0 else 0.5
        return Frequency(share * self.value + (1 - share) * other.value, share * self.variance)


def oue_variance(epsilon: float, reports: int) -> float:
    """4e^ε / (n(e^ε - 1)²), of the frequency of a value that few have."""
    return 4 * math.exp(epsilon) / (reports * math.expm1(epsilon) ** 2)


def draw_frequencies(
    parent: Node, users: IntArray, reports: int, epsilon: float, rng: np.random.Generator
) -> Iterator[tuple[Span, Frequency]]:
    """The frequency of each node below, from `reports` devices, `users` of them in each segment of the parent.

    A node takes its part of the devices that its parent leaves, and leaves the others to its children. The nodes that a
    device serves do not overlap and cover the domain, so that it sends one OUE vector. Bits of a vector are
    independent: a node's count of ones needs no more than the number of its devices, and of those whose value it holds.
    """
    start = parent.span[0]
    for child in parent.children:
        own = users[child.span[0] - start : child.span[1] - start]
        inside = int(own.sum())
        asked = -(-reports // child.height)
        holding = int(rng.hypergeometric(inside, reports - inside, asked))
        yield child.span, _draw_frequency(holding, asked, epsilon, rng)
        left = own - rng.multivariate_hypergeometric(own, holding, method="marginals")
        yield from draw_frequencies(child, left, reports - asked, epsilon, rng)


def _draw_frequency(holding: int, asked: int, epsilon: float, rng: np.random.Generator) -> Frequency:
    p, q = 0.5, 1 / (math.exp(epsilon) + 1)
    ones = rng.binomial(holding, p) + rng.binomial(asked - holding, q)
    return Frequency((ones / asked - q) / (p - q), oue_variance(epsilon, asked))


# The estimate ---------------------------------------------------------------------------------------------------------


def make_consistent(tree: Node, observed: dict[Span, Frequency], first_masses: FloatArray) -> FloatArray:
    """The mass of each segment: no node is negative, and every node is the sum of its children (3.5.1)."""
    averages: dict[Span, Frequency] = {}
    for child in tree.children:
        _average_upwards(child, observed, first_masses, averages)
    masses = np.zeros(first_masses.size)
    _share_downwards(tree, 1.0, averages, masses)
    return masses


def _average_upwards(
    node: Node, observed: dict[Span, Frequency], first_masses: FloatArray, averages: dict[Span, Frequency]
) -> Frequency:
    """A node with the sum of its children; a leaf with what the first phase found."""
    own = observed[node.span]
    if node.children:
        below = [_average_upwards(child, observed, first_masses, averages) for child in node.children]
        other = Frequency(sum(part.value for part in below), sum(part.variance for part in below))
    else:
        # The error of the wave is unknown, and guessed from how far it is from OUE (algorithm 4, lines 3 and 4).
        found = float(first_masses[node.span[0]])
        gap = (found - own.value) ** 2
        other = Frequency(found, gap - own.variance if gap > own.variance else gap)
    averages[node.span] = own.average(other)
    return averages[node.span]


def _share_downwards(node: Node, total: float, averages: dict[Span, Frequency], masses: FloatArray) -> None:
    """Children take the nearest values that are not negative and sum to what their parent has (equation 9)."""
    if not node.children:
        masses[node.span[0]] = total
        return
    values = np.array([averages[child.span].value for child in node.children])
    shares = project_onto_simplex(values / total) if total > 0 else np.zeros(values.size)
    for child, share in zip(node.children, shares, strict=True):
        _share_downwards(child, share * total, averages, masses)


def spread(segments: Segments, masses: FloatArray) -> FloatArray:
    """Each mass over its buckets, along the slope, or the steepest that leaves no bucket negative (equation 10)."""
    result = np.empty(int(segments.bounds[-1]))
    for first, size, slope, mass in zip(segments.bounds, segments.sizes, segments.slopes, masses, strict=False):
        steepest = 2 * mass / (size * (size - 1)) if size > 1 else 0.0
        lean = min(max(slope, -steepest), steepest)
        result[first : first + size] = np.maximum(mass / size + lean * (np.arange(size) - (size - 1) / 2), 0.0)
    return result
