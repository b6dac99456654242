"""The model of a window: a log-density of smooth functions, with point masses and narrow hills where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushgram._arrays import BoolArray, FloatArray
from hushgram.estimators.log_spline.basis import Basis

FEATURE_VARIANCE = 25.0
"""The prior variance of the height of a point mass or a hill, in squared nats."""


@dataclass(frozen=True)
class Hyperparameters:
    """Mode k of the log-density has the prior variance τ·κ^(-2α)."""

    log_scale: float
    exponent: float


@dataclass(frozen=True)
class Feature:
    """A point mass in one bucket (width 0), or a hill exp(-½((i - bucket)/width)²) around it, in the log-density."""

    bucket: int
    width: float = 0.0


@dataclass(frozen=True, eq=False)
class Model:
    """θ = Φa and x = softmax θ, where Φ are the functions of the basis, of the hills and of the point masses."""

    basis: Basis
    hills: tuple[Feature, ...] = ()
    spikes: tuple[Feature, ...] = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """In the order of their coefficients, which follow those of the basis."""
        return (*self.hills, *self.spikes)

    @property
    def size(self) -> int:
        return self.basis.size + len(self.hills) + len(self.spikes)

    @property
    def wide(self) -> int:
        """The number of columns of Φ that are more than one bucket wide."""
        return self.basis.size + len(self.hills)

    @cached_property
    def spike_buckets(self) -> list[int]:
        return [spike.bucket for spike in self.spikes]

    @cached_property
    def functions(self) -> FloatArray:
        """The wide columns of Φ."""
        return np.column_stack([self.basis.functions, self._hill_functions]) if self.hills else self.basis.functions

    @cached_property
    def _hill_functions(self) -> FloatArray:
        distance = np.arange(self.basis.buckets)[:, None] - [hill.bucket for hill in self.hills]
        return np.exp(-0.5 * (distance / [hill.width for hill in self.hills]) ** 2)

    @cached_property
    def _part_functions(self) -> FloatArray:
        """Φ on the parts of the domain, and on the buckets of point masses as further parts."""
        parts = self.basis.part_functions
        if self.hills:
            parts = np.column_stack([parts, self.basis.part_averages(self._hill_functions)])
        if not self.spikes:
            return parts
        count = len(self.spikes)
        own = np.column_stack([self.functions[self.spike_buckets], np.eye(count)])
        return np.vstack([np.pad(parts, ((0, 0), (0, count))), own])

    @cached_property
    def _matrix(self) -> FloatArray:
        """From those parts to pools of cells."""
        if not self.spikes:
            return self.basis.matrix
        points = np.zeros((len(self.spikes), self.basis.buckets))
        points[np.arange(len(self.spikes)), self.spike_buckets] = 1
        columns = self.basis.pools(self.basis.forward(points)).T
        return np.ascontiguousarray(np.column_stack([self.basis.matrix, columns]))

    def extended(self, a: FloatArray, features: Sequence[Feature], heights: FloatArray) -> tuple[Model, FloatArray]:
        """With more features of one kind, and the coefficients to start from."""
        if features[0].width:
            model = Model(self.basis, (*self.hills, *features), self.spikes)
            return model, np.concatenate([a[: self.wide], heights, a[self.wide :]])
        return Model(self.basis, self.hills, (*self.spikes, *features)), np.concatenate([a, heights])

    def reduced(self, a: FloatArray, dropped: BoolArray) -> tuple[Model, FloatArray]:
        """Without the features that are dropped."""
        kept = [feature for feature, drop in zip(self.features, dropped.tolist(), strict=True) if not drop]
        model = Model(
            self.basis, tuple(f for f in kept if f.width), tuple(feature for feature in kept if not feature.width)
        )
        return model, a[np.concatenate([np.ones(self.basis.size, dtype=bool), ~dropped])]

    def log_density(self, a: FloatArray) -> FloatArray:
        """θ, up to a constant."""
        theta: FloatArray = self.functions @ a[: self.wide]
        theta[self.spike_buckets] += a[self.wide :]
        return theta

    def distribution(self, a: FloatArray) -> FloatArray:
        theta = self.log_density(a)
        weights = np.exp(theta - theta.max())
        return weights / weights.sum()

    def gradient(self, v: FloatArray) -> FloatArray:
        """Φᵀv."""
        return np.concatenate([self.functions.T @ v, v[self.spike_buckets]])

    def sensitivity(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """∂y/∂a for the probabilities y of pools of cells, and y itself."""
        outside = x.copy()
        outside[self.spike_buckets] = 0
        mass = np.concatenate([np.add.reduceat(outside, self.basis.part_starts), x[self.spike_buckets]])
        y = self._matrix @ mass
        weighted = mass[:, None] * self._part_functions
        change = self._matrix @ weighted
        change -= np.outer(y, weighted.sum(axis=0))
        return change, y

    def prior_deviations(self, hyper: Hyperparameters, roughness: FloatArray | float = 0.0) -> FloatArray:
        """The prior's standard deviation of each coefficient; `roughness` adds to the variance of the modes."""
        extra = np.full(self.size - self.basis.size, FEATURE_VARIANCE)
        power = np.exp(hyper.log_scale - 2 * hyper.exponent * self.basis.log_frequency) + roughness
        fixed = np.where(self.basis.is_mode, power, self.basis.fixed_variances)
        return np.sqrt(np.concatenate([fixed, extra]))

    def slopes(self, x: FloatArray) -> FloatArray:
        """∂x/∂a, buckets × coefficients."""
        means = self.gradient(x)
        slopes = np.empty((x.size, self.size))
        np.subtract(self.functions, means[: self.wide], out=slopes[:, : self.wide])
        slopes[:, self.wide :] = -means[self.wide :]
        slopes[self.spike_buckets, np.arange(self.wide, self.size)] += 1
        slopes *= x[:, None]
        return slopes
