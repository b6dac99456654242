"""What the fit of a window leaves for the next one, of the same window with more reports: a place to start from."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hushgram.estimators.log_spline.basis import Basis
from hushgram.estimators.log_spline.model import Hyperparameters
from hushgram.estimators.log_spline.posterior import GREATEST_EXPONENT, LEAST_EXPONENT, Posterior
from hushgram.mechanisms.base import Mechanism

VERSION = 1
"""Other functions in the basis, or another meaning of their coefficients, take another version."""
HEADER = struct.Struct("<B8sIBdd")
LARGEST = HEADER.size + 8 * 255
"""No warm start has more bytes."""
GREATEST_SCALE, GREATEST_COEFFICIENT = 100.0, 1e4
"""Far beyond any fit: what is larger is not one."""


@dataclass(frozen=True)
class WarmStart:
    """The coefficients of a smooth fit and its hyperparameters.

    A fit with point masses or hills leaves none: which of them there are is found from scratch.
    """

    fingerprint: bytes
    """Of the mechanisms that the reports went through: no others may start from here."""
    buckets: int
    hyper: Hyperparameters
    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        for name, allowed in {
            "fingerprint": len(self.fingerprint) == 8,
            "buckets": 0 < self.buckets < 2**32,
            "scale": abs(self.hyper.log_scale) <= GREATEST_SCALE,
            "exponent": LEAST_EXPONENT <= self.hyper.exponent <= GREATEST_EXPONENT,
            "number of coefficients": len(self.coefficients) <= 255,
            "coefficients": bool((np.abs(self.coefficients) <= GREATEST_COEFFICIENT).all()),
        }.items():
            if not allowed:
                raise ValueError(f"not a warm start, by its {name}")

    @classmethod
    def of(cls, posterior: Posterior, mechanisms: Sequence[Mechanism]) -> WarmStart | None:
        """That of a fit to reports of these mechanisms, if it has one."""
        if posterior.model.features:
            return None
        fingerprint, buckets = fingerprint_of(tuple(mechanisms)), posterior.model.basis.buckets
        return cls(fingerprint, buckets, posterior.hyper, tuple(posterior.a.tolist()))

    def serves(self, basis: Basis, mechanisms: Sequence[Mechanism]) -> bool:
        """Whether a fit to reports of these mechanisms may start from here."""
        functions = (self.buckets, len(self.coefficients))
        return functions == (basis.buckets, basis.size) and self.fingerprint == fingerprint_of(tuple(mechanisms))

    def to_bytes(self) -> bytes:
        """A fixed layout, the same for equal values.

        Version, fingerprint, buckets, number of coefficients, log τ and α; then the coefficients.
        """
        hyper, count = self.hyper, len(self.coefficients)
        head = HEADER.pack(VERSION, self.fingerprint, self.buckets, count, hyper.log_scale, hyper.exponent)
        return head + np.array(self.coefficients, dtype="<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> WarmStart:
        """What `to_bytes` wrote; a `ValueError` for anything else."""
        if len(data) < HEADER.size or data[0] != VERSION:
            raise ValueError(f"not a warm start of version {VERSION}")
        _, fingerprint, buckets, count, log_scale, exponent = HEADER.unpack_from(data)
        if len(data) != HEADER.size + 8 * count:
            raise ValueError(f"not a warm start, by its length: {len(data)} bytes for {count} coefficients")
        coefficients = np.frombuffer(data, "<f8", count, HEADER.size).tolist()
        return cls(fingerprint, buckets, Hyperparameters(log_scale, exponent), tuple(coefficients))


@lru_cache(maxsize=64)
def fingerprint_of(mechanisms: tuple[Mechanism, ...]) -> bytes:
    """Eight bytes that differ for mechanisms with other laws."""
    laws = [
        [mechanism.name, mechanism.parameters(), [[law.P, law.Q, law.T] for law in mechanism.laws]]
        for mechanism in mechanisms
    ]
    return hashlib.sha256(json.dumps(laws, sort_keys=True).encode()).digest()[:8]
