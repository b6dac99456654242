"""The model of a window: a log-density of smooth functions, with point masses, narrow hills and jumps where there are
any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from hushgram._arrays import BoolArray, FloatArray
from hushgram.estimators.log_spline.basis import Basis

Kind = Literal["point", "hill", "jump"]
VARIANCES: dict[Kind, float] = {"point": 25.0, "hill": 25.0, "jump": 2.0}
"""The prior variances of the heights of features, in squared nats."""


@dataclass(frozen=True)
class Hyperparameters:
    """Mode k of the log-density has the prior variance τ·κ^(-2α)."""

    log_scale: float
    exponent: float


@dataclass(frozen=True)
class Feature:
    """A point mass in one bucket, a hill exp(-½((i - bucket)/width)²) around it, or a jump before it, in θ."""

    kind: Kind
    bucket: int
    width: float = 0.0

    def function(self, buckets: int) -> FloatArray:
        """Its column of Φ."""
        distance = np.arange(buckets) - self.bucket
        if self.kind == "hill":
            return np.exp(-0.5 * (distance / self.width) ** 2)
        return (distance >= 0 if self.kind == "jump" else distance == 0).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Model:
    """θ = Φa and x = softmax θ, where Φ are the functions of the basis, of hills and jumps, and of point masses."""

    basis: Basis
    wide_features: tuple[Feature, ...] = ()
    spikes: tuple[Feature, ...] = ()

    @property
    def features(self) -> tuple[Feature, ...]:
        """In the order of their coefficients, which follow those of the basis."""
        return (*self.wide_features, *self.spikes)

    @property
    def size(self) -> int:
        return self.basis.size + len(self.wide_features) + len(self.spikes)

    @property
    def wide(self) -> int:
        """The number of columns of Φ that are more than one bucket wide."""
        return self.basis.size + len(self.wide_features)

    @cached_property
    def spike_buckets(self) -> list[int]:
        return [spike.bucket for spike in self.spikes]

    @cached_property
    def functions(self) -> FloatArray:
        """The wide columns of Φ."""
        if not self.wide_features:
            return self.basis.functions
        return np.column_stack([self.basis.functions, self._own_functions])

    @cached_property
    def _own_functions(self) -> FloatArray:
        return np.column_stack([feature.function(self.basis.buckets) for feature in self.wide_features])

    @cached_property
    def _part_functions(self) -> FloatArray:
        """Φ on the parts of the domain, and on the buckets of point masses as further parts."""
        parts = self.basis.part_functions
        if self.wide_features:
            parts = np.column_stack([parts, self.basis.part_averages(self._own_functions)])
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
        if features[0].kind == "point":
            return Model(self.basis, self.wide_features, (*self.spikes, *features)), np.concatenate([a, heights])
        model = Model(self.basis, (*self.wide_features, *features), self.spikes)
        return model, np.concatenate([a[: self.wide], heights, a[self.wide :]])

    def reduced(self, a: FloatArray, dropped: BoolArray) -> tuple[Model, FloatArray]:
        """Without the features that are dropped; what jumps did, the functions of the basis then do."""
        a = a.copy()
        for feature, height in zip(self.features, a[self.basis.size :].tolist(), strict=True):
            if feature.kind == "jump" and dropped[self.features.index(feature)]:
                a[: self.basis.size] += height * self.basis.step_coefficients[:, feature.bucket]
        kept = [feature for feature, drop in zip(self.features, dropped.tolist(), strict=True) if not drop]
        wide = tuple(feature for feature in kept if feature.kind != "point")
        model = Model(self.basis, wide, tuple(feature for feature in kept if feature.kind == "point"))
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
        extra = [VARIANCES[feature.kind] for feature in self.features]
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
