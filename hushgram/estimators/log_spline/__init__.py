"""A smooth log-density with a spectral prior, selected by its evidence, as an estimator of windows.

The logarithm of the density is a sum of smooth functions whose prior variances fall as a power of their frequency. The
reports of each window choose that power and its scale, by the evidence, and where the density has point masses,
narrow hills or jumps. `docs/mathematics.md` has the model and where it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hushgram._arrays import FloatArray, IntArray
from hushgram.estimators import ems
from hushgram.estimators.em import Part
from hushgram.estimators.log_spline.basis import Basis, basis_of
from hushgram.estimators.log_spline.placement import Placement, find_placements, place, place_rival
from hushgram.estimators.log_spline.posterior import Posterior
from hushgram.estimators.log_spline.search import fit
from hushgram.estimators.log_spline.uncertainty import error_law
from hushgram.estimators.log_spline.warm_start import WarmStart
from hushgram.estimators.strips import least_squares
from hushgram.estimators.types import Method, Solution, Uncertainty, Window
from hushgram.mechanisms.base import Transition

LEAST_BUCKETS = 16
"""With fewer, there is no curve to smooth."""


def log_spline(
    windows: Sequence[Window], method: Method, starts: Sequence[bytes | None] | None = None
) -> list[Solution]:
    """Windows one by one: the result of each depends on nothing beside it. Where there is none, EMS stands in.

    `starts` are the warm starts of the windows that have one, from an earlier fit to fewer reports.
    """
    if method.buckets < LEAST_BUCKETS:
        return [replace(solution, estimator="em") for solution in ems.em(windows, method)]
    starts = [None] * len(windows) if starts is None else starts
    return [_solve(window, method, start) for window, start in zip(windows, starts, strict=True)]


def _solve(window: Window, method: Method, start: bytes | None) -> Solution:
    mechanisms = tuple(mechanism for mechanism, _ in window if isinstance(mechanism, Transition))
    counts = [tally.astype(np.float64) for _, tally in window]
    basis = basis_of(mechanisms)
    found = fit(basis, counts, _warm_start(start, basis, window))
    posterior = found.posterior
    if not posterior.converged:
        return replace(ems.ems([window], method)[0], estimator="ems")
    placements = find_placements(posterior, counts)
    if found.rival is not None:
        placements.append(place_rival(posterior, placements, found.rival, found.rival_share, counts))
    result = _Fitted(posterior, placements, counts)
    left = None if found.rival else WarmStart.of(posterior, [mechanism for mechanism, _ in window])
    return Solution(
        posterior.steps,
        True,
        place(posterior, placements),
        uncertainty=result.law,
        unsmoothed=result.unsmoothed,
        fit=result.fit,
        warm_start=None if left is None else left.to_bytes(),
    )


def _warm_start(encoded: bytes | None, basis: Basis, window: Window) -> WarmStart | None:
    """A start that another version wrote, or that came from other mechanisms, is none."""
    if encoded is None:
        return None
    try:
        start = WarmStart.from_bytes(encoded)
    except ValueError:
        return None
    return start if start.serves(basis, [mechanism for mechanism, _ in window]) else None


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A window's posterior with its reports; what the estimate itself does not need is computed when asked for."""

    posterior: Posterior
    placements: Sequence[Placement]
    counts: Sequence[FloatArray]

    def law(self) -> Uncertainty:
        return self._law

    @cached_property
    def _law(self) -> Uncertainty:
        return error_law(self.posterior, self.placements, np.array([row.sum() for row in self.counts]))

    def unsmoothed(self) -> Uncertainty:
        return least_squares(self._parts)[0]

    def fit(self) -> float | None:
        """Pearson's test at the centre of the law, which is smoothed less; where that is not clear, after EM steps."""
        bounds: IntArray = np.rint(self._law.edges * self.posterior.model.basis.buckets).astype(np.int64)
        sizes = bounds[1:] - bounds[:-1]
        x = np.repeat(np.maximum(self._law.centre, 0.0) / sizes, sizes)
        near = self.posterior.model.basis.forward((x / x.sum())[None])
        return ems.fits(self._parts, near, self.posterior.x[None])[0]

    @cached_property
    def _parts(self) -> list[Part]:
        mechanisms = self.posterior.model.basis.mechanisms
        return [Part(mechanism, row[None]) for mechanism, row in zip(mechanisms, self.counts, strict=True)]


__all__ = ["log_spline"]
