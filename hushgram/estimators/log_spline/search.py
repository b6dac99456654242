"""The fit of one window: a smooth curve first, then point masses and hills where the reports ask for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from hushgram._arrays import BoolArray, FloatArray
from hushgram.estimators.log_spline.basis import Basis
from hushgram.estimators.log_spline.model import Feature, Model
from hushgram.estimators.log_spline.posterior import CENTRE, Posterior, find_mode
from hushgram.estimators.log_spline.warm_start import WarmStart

FIRST_STEPS = 12
"""EM steps before the first mode is looked for."""
SMOOTHEST = 12
"""The functions that the first guess is made of."""
TEMPERED = 1e5
"""Above this many reports, a part of them is fitted first: a sharp likelihood is hard to climb from afar."""
SCORE, END_SCORE = 5.0, 2.5
"""The standardised score above which a feature is tried: inside the domain, and at its ends, where clipping puts it."""
GAIN, END_GAIN = 8.0, 3.0
"""The log-evidence that each feature must then gain."""
DEVIATIONS = 3.0
"""A feature whose height is within this many standard errors of zero is dropped."""
HILL_WIDTHS = (1 / 256, 1 / 64)
"""The widths of hills, as shares of the domain; hills of less than a bucket are not tried."""
AT_ONCE = 3
MOST_FEATURES = 24
MOST_REFUSALS = 2
LEAST_WARM_REPORTS = 10_000
MOST_WARM_STEPS = 4
"""With fewer reports, or after more steps, a warm start and a fit from scratch may end some way apart;"""
WARM_SCORE = 4.0
"""where a score is higher, a feature would be tried soon, with a few more reports;"""
STEEPEST = 1.75
"""and the outermost 64th of the domain may have this many times the mass of the next."""


@dataclass(frozen=True)
class Candidates:
    """Buckets to try a feature in, and the log-evidence that each must gain."""

    buckets: list[int]
    gain: float


def fit(basis: Basis, counts: Sequence[FloatArray], start: WarmStart | None = None) -> Posterior:
    """The posterior of one window: at the centre of the hyperprior at first, then with hyperparameters of its own.

    From a warm `start` that leads to a smooth curve soon, it is that curve.
    """
    resumed = None if start is None else _resume(basis, counts, start)
    if resumed is not None:
        return resumed
    posterior = _first_fit(basis, counts)
    refused = np.zeros(basis.buckets, dtype=bool)
    for free in (False, True):
        if free or not posterior.converged:
            posterior = _after(posterior, find_mode(posterior.model, counts, posterior.a, posterior.hyper, free=free))
        posterior = _add_features(posterior, counts, free, refused)
    return _drop_weak(posterior, counts, free=True)


def _resume(basis: Basis, counts: Sequence[FloatArray], start: WarmStart) -> Posterior | None:
    """On from a smooth fit to fewer reports; None where a fit from scratch may well end elsewhere."""
    reports = np.array([row.sum() for row in counts])
    if reports.sum() < LEAST_WARM_REPORTS:
        return None
    posterior = find_mode(Model(basis), counts, np.array(start.coefficients), start.hyper, most_steps=MOST_WARM_STEPS)
    return posterior if posterior.converged and _is_smooth(posterior, counts, reports) else None


def _is_smooth(posterior: Posterior, counts: Sequence[FloatArray], reports: FloatArray) -> bool:
    """Whether the curve stands in for no feature, as one may with hyperparameters of its own.

    A step back to the centre of the hyperprior, where a fit from scratch looks for features, shows those inside the
    domain. A curve that climbs steeply to an end may always hide a point mass there.
    """
    strip = max(1, posterior.x.size // 64)
    for x in (posterior.x, posterior.x[::-1]):
        if x[:strip].sum() > STEEPEST * x[strip : 2 * strip].sum():
            return False
    stiffer = find_mode(posterior.model, counts, posterior.a, CENTRE, free=False, most_steps=1)
    scores, _ = scores_of_point_masses(stiffer, reports)
    return bool(scores.max() <= WARM_SCORE and scores[[0, -1]].max() <= END_SCORE)


def _first_fit(basis: Basis, counts: Sequence[FloatArray]) -> Posterior:
    """With a point mass at both ends: a smooth curve that stands in for one is a bad place to start from."""
    model = Model(basis, spikes=(Feature(0), Feature(basis.buckets - 1)))
    a, steps = _first_guess(basis, counts), 0
    reports = float(sum(row.sum() for row in counts))
    for power in range(max(0, math.ceil(math.log10(reports / TEMPERED))), -1, -1):
        some = [row / 10**power for row in counts]
        posterior = find_mode(model, some, a, CENTRE, free=False, most_steps=5 if power else 15)
        a, steps = posterior.a, steps + posterior.steps
    return _drop_weak(replace(posterior, steps=steps), counts, free=False)


def _first_guess(basis: Basis, counts: Sequence[FloatArray]) -> FloatArray:
    """A few EM steps on parts and pools, read as coefficients of the smoothest functions and of the two ends."""
    pooled, even = basis.pools(counts), basis.part_sizes / basis.buckets
    x = even
    for _ in range(FIRST_STEPS):
        x = x * (basis.matrix.T @ (pooled / (basis.matrix @ x))) / pooled.sum()
    weights = np.sqrt(x + 0.1 * even)
    count = min(SMOOTHEST, basis.size)
    functions = np.column_stack([np.ones(x.size), basis.part_functions[:, :count]])
    target = np.log(np.maximum(x / even, 1e-3))
    a = np.zeros(basis.size + 2)
    a[:count] = np.linalg.lstsq(functions * weights[:, None], target * weights, rcond=None)[0][1:]
    height = x / basis.part_sizes
    excess = np.maximum(height[[0, -1]] / height[[2, -3]] - 1, 0.0)
    a[-2:] = np.log1p(excess * basis.part_sizes[[0, -1]])
    return a


def _add_features(posterior: Posterior, counts: Sequence[FloatArray], free: bool, refused: BoolArray) -> Posterior:
    """With the features that gain enough evidence; `refused` marks the buckets that are not to be tried again."""
    basis = posterior.model.basis
    reports = np.array([row.sum() for row in counts])
    refusals = 0
    while posterior.converged and refusals < MOST_REFUSALS and len(posterior.model.features) < MOST_FEATURES:
        scores, variances = scores_of_point_masses(posterior, reports)
        scores[refused] = 0
        scores[posterior.model.spike_buckets] = 0
        candidates = find_candidates(scores)
        if candidates is None:
            break
        best = _best_with(posterior, counts, candidates, variances, free)
        if best.log_evidence - posterior.log_evidence > candidates.gain * len(candidates.buckets):
            posterior = best
            continue
        posterior, refusals = replace(posterior, steps=best.steps), refusals + 1
        # Of several, the strongest gets a second chance, alone.
        weakest = sorted(candidates.buckets, key=lambda bucket: scores[bucket])
        for bucket in weakest[: max(1, len(weakest) - 1)]:
            near = max(2, basis.buckets // 128)
            refused[max(0, bucket - near) : bucket + near + 1] = True
    return posterior


def scores_of_point_masses(posterior: Posterior, reports: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each bucket, the score of a point mass there over its standard error under the model, and its variance."""
    model, basis = posterior.model, posterior.model.basis
    change, y = model.sensitivity(posterior.x)
    weights = reports[basis.mechanism_of_pool] / y
    variances = basis.squared_matrix.T @ weights - reports.sum()
    shared = change.T @ (weights[:, None] * basis.matrix)
    explained = solve_triangular(posterior.root, posterior.deviations[:, None] * shared, lower=True, check_finite=False)
    left = np.maximum(variances - (explained**2).sum(axis=0), 0.1 * variances)[basis.part_of_bucket]
    return posterior.pull / np.sqrt(left), left


def find_candidates(scores: FloatArray) -> Candidates | None:
    """The ends of the domain, where one of them stands out; else the highest scores, some distance apart."""
    last = scores.size - 1
    ends = [bucket for bucket in (0, last) if scores[bucket] > END_SCORE]
    if ends and scores.max() <= 2 * scores[ends].max():
        return Candidates(ends, END_GAIN)
    found, left, near = list[int](), scores.copy(), scores.size // 16
    while len(found) < AT_ONCE:
        bucket = int(np.argmax(left))
        if left[bucket] < max(SCORE, 0.7 * scores.max()):
            break
        found.append(bucket)
        left[max(0, bucket - near) : bucket + near + 1] = 0
    return Candidates(found, GAIN) if found else None


def _best_with(
    posterior: Posterior, counts: Sequence[FloatArray], candidates: Candidates, variances: FloatArray, free: bool
) -> Posterior:
    """The fit of most evidence with the candidates as point masses, as narrow hills or as wide ones."""
    model, buckets = posterior.model, posterior.model.basis.buckets
    mass = np.clip(posterior.pull[candidates.buckets] / variances[candidates.buckets], 1e-4, 0.5)
    hills = [share * buckets for share in HILL_WIDTHS if share * buckets >= 1] if candidates.gain == GAIN else []
    fits, steps = [], posterior.steps
    for width in (0.0, *hills):
        features = [Feature(bucket, width) for bucket in candidates.buckets]
        height = np.log1p(mass / np.maximum(posterior.x[candidates.buckets] * max(1.0, 2 * width), 1e-12))
        larger, a = model.extended(posterior.a, features, height)
        fits.append(find_mode(larger, counts, a, posterior.hyper, free=free, most_steps=15))
        steps += fits[-1].steps
    return replace(max(fits, key=lambda candidate: candidate.log_evidence), steps=steps)


def _drop_weak(posterior: Posterior, counts: Sequence[FloatArray], free: bool) -> Posterior:
    """Fitted again without the features whose height is not clearly above zero."""
    start = posterior.model.basis.size
    weak = posterior.a[start:] < DEVIATIONS * posterior.standard_errors()[start:]
    if not weak.any():
        return posterior
    model, a = posterior.model.reduced(posterior.a, weak)
    return _after(posterior, find_mode(model, counts, a, posterior.hyper, free=free))


def _after(earlier: Posterior, later: Posterior) -> Posterior:
    """The later one, with the steps of both."""
    return replace(later, steps=earlier.steps + later.steps)
