"""The fit of one window: a smooth curve first, then point masses, hills and jumps where the reports ask for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hushgram._arrays import BoolArray, FloatArray
from hushgram.estimators.log_spline.basis import Basis
from hushgram.estimators.log_spline.candidates import (
    END_SCORE,
    Candidates,
    candidates,
    gain_of_jumps,
    near,
    score_point_masses,
)
from hushgram.estimators.log_spline.model import Feature, Kind, Model
from hushgram.estimators.log_spline.posterior import CENTRE, Posterior, find_mode
from hushgram.estimators.log_spline.warm_start import WarmStart

FIRST_STEPS = 12
"""EM steps before the first mode is looked for."""
SMOOTHEST = 12
"""The functions that the first guess is made of."""
TEMPERED = 1e5
"""Above this many reports, a part of them is fitted first: a sharp likelihood is hard to climb from afar."""
DEVIATIONS = 3.0
"""A feature whose height is within this many standard errors of zero is dropped."""
EVEN_GAIN = 6.0
"""The log-evidence at which a feature is as likely as none: about the logarithm of the number of places that it may
have, as far as reports tell them apart."""
LEAST_SHARE = 0.02
"""A rival of a lower probability is left out."""
MOST_FEATURES = 24
MOST_REFUSALS = 2
MOST_STEPS = 150
"""After this many steps, no more features are tried: a bound on the time of one window."""
LEAST_WARM_REPORTS, MOST_WARM_STEPS = 10_000, 4
"""With fewer reports, or after more steps, a warm start and a fit from scratch may end some way apart."""
WARM_SCORE, WARM_GAIN = 4.0, 2.0
"""Above this score of a point mass, or this gain of a jump, a fit from scratch might find a feature."""
STEEPEST = 1.75
"""An end of the domain whose outermost 64th has more than this times the mass of the next may hide a point mass."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The posterior of a window, and one with more features, which did not gain enough, with its probability."""

    posterior: Posterior
    rival: Posterior | None = None
    rival_share: float = 0.0


def fit(basis: Basis, counts: Sequence[FloatArray], start: WarmStart | None = None) -> Fit:
    """At the centre of the hyperprior at first, then with hyperparameters of the window's own.

    From a warm `start` that leads to a smooth curve soon, it is that curve.
    """
    resumed = None if start is None else _resume(basis, counts, start)
    if resumed is not None:
        return Fit(resumed)
    posterior = _first_fit(basis, counts)
    refused: dict[Kind, BoolArray] = {kind: np.zeros(basis.buckets, dtype=bool) for kind in ("point", "jump")}
    result = Fit(posterior)
    for free in (False, True):
        if free or not posterior.converged:
            posterior = _after(posterior, find_mode(posterior.model, counts, posterior.a, posterior.hyper, free=free))
        result = _add_features(posterior, counts, free, refused)
        posterior = result.posterior
    last = _drop_weak(posterior, counts, free=True)
    if not last.converged:  # many features at once may need more steps than were allowed for trying them
        last = _after(last, find_mode(last.model, counts, last.a, last.hyper, most_steps=60))
    return replace(result, posterior=last)


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
    stiffer = find_mode(
        posterior.model, counts, posterior.a, CENTRE, free=False, most_steps=1, information=posterior.information
    )
    scores = score_point_masses(stiffer, reports).standardised
    starts = posterior.model.basis.part_starts
    gains = [float(gain_of_jumps(each, starts)[0].max()) for each in (posterior, stiffer)]
    return bool(scores.max() <= WARM_SCORE and scores[[0, -1]].max() <= END_SCORE and max(gains) <= WARM_GAIN)


def _first_fit(basis: Basis, counts: Sequence[FloatArray]) -> Posterior:
    """With a point mass at both ends: a smooth curve that stands in for one is a bad place to start from."""
    model = Model(basis, spikes=(Feature("point", 0), Feature("point", basis.buckets - 1)))
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


def _add_features(
    posterior: Posterior, counts: Sequence[FloatArray], free: bool, refused: dict[Kind, BoolArray]
) -> Fit:
    """With the features that gain enough evidence; `refused` marks the buckets that are not to be tried again."""
    basis = posterior.model.basis
    reports = np.array([row.sum() for row in counts])
    refusals, rival, share = 0, None, 0.0
    while (
        posterior.converged
        and refusals < MOST_REFUSALS
        and len(posterior.model.features) < MOST_FEATURES
        and posterior.steps < MOST_STEPS
    ):
        proposals = candidates(posterior, reports, refused, free=free)
        if not proposals:
            break
        fits = [_with_features(posterior, counts, proposal, free) for proposal in proposals]
        steps = posterior.steps + sum(other.steps for other in fits)
        gains = [
            other.log_evidence - posterior.log_evidence - proposal.needed
            for other, proposal in zip(fits, proposals, strict=True)
        ]
        best = int(np.argmax(gains))
        if gains[best] > 0:
            posterior, rival, share = replace(fits[best], steps=steps), None, 0.0
            continue
        posterior, refusals = replace(posterior, steps=steps), refusals + 1
        odds = gains[best] + proposals[best].needed - EVEN_GAIN * len(proposals[best].features)
        chance = 1 / (1 + math.exp(min(-odds, 700.0)))
        if fits[best].converged and chance > max(share, LEAST_SHARE):
            rival, share = fits[best], chance
        for proposal in proposals:
            _refuse(refused, proposal, basis.buckets)
    return Fit(posterior, rival, share)


def _with_features(posterior: Posterior, counts: Sequence[FloatArray], proposal: Candidates, free: bool) -> Posterior:
    start = posterior.a.copy()
    if proposal.replaced is not None:
        start[: proposal.replaced.size] -= proposal.replaced
    model, a = posterior.model.extended(start, proposal.features, np.array(proposal.heights))
    return find_mode(model, counts, a, posterior.hyper, free=free, most_steps=15)


def _refuse(refused: dict[Kind, BoolArray], proposal: Candidates, buckets: int) -> None:
    """Of several features, the first, which has the highest score, gets a second chance, alone."""
    for feature in proposal.features[1:] or proposal.features:
        kind: Kind = "jump" if feature.kind == "jump" else "point"
        refused[kind][near(feature, buckets)] = True


def _drop_weak(posterior: Posterior, counts: Sequence[FloatArray], free: bool) -> Posterior:
    """Fitted again without the features whose height is not clearly above zero; that of a jump may be below."""
    start = posterior.model.basis.size
    heights = np.where(
        [feature.kind == "jump" for feature in posterior.model.features],
        np.abs(posterior.a[start:]),
        posterior.a[start:],
    )
    weak = heights < DEVIATIONS * posterior.standard_errors()[start:]
    if not weak.any():
        return posterior
    model, a = posterior.model.reduced(posterior.a, weak)
    return _after(posterior, find_mode(model, counts, a, posterior.hyper, free=free))


def _after(earlier: Posterior, later: Posterior) -> Posterior:
    """The later one, with the steps of both."""
    return replace(later, steps=earlier.steps + later.steps)
