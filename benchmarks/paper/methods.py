"""The methods that are compared, each as a collection of this product, and the metrics that the paper gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hushgram import Collection
from hushgram.mechanisms import RandomizedResponse, frequency_oracle
from hushgram.simulation import METRICS

ALL = tuple(METRICS)
RANGES = ("range_0.1", "range_0.4")
MOMENTS = ("mean", "variance")
COVERED = ("covers_mean", "covers_median", "covers_cdf", "covers_worst_cdf", "covers_band")
"""How often intervals of 95 % hold the truth, in the order of `benchmarks.coverage.shares_held`."""


@dataclass(frozen=True)
class PaperMethod:
    """How devices report and how the reports are read; `ours` is beyond the paper."""

    name: str
    metrics: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    ours: bool = False

    def collection(self, epsilon: float, buckets: int, bandwidth: float | None = None) -> Collection:
        options = dict(self.options)
        if "bins" in options:
            # GRR or OLH, whichever has the lower variance (paper, section 2.1).
            plain = isinstance(frequency_oracle(options["bins"], epsilon), RandomizedResponse)
            options["mechanism"] = "randomized_response" if plain else "local_hashing"
        return Collection(name="paper", low=0, high=1, buckets=buckets, epsilon=epsilon, bandwidth=bandwidth, **options)


# Randomize before bucketize, with as many output buckets as buckets: the paper's choice (section 5.4).
WAVE = {"mechanism": "square_wave_continuous"}
DISCRETE = {"mechanism": "square_wave"}
FOUR_WIDTHS = {**DISCRETE, "widths": (0.5, 0.75, 1, 1.25)}
TREE = {"mechanism": "hierarchy", "branching": 4}
AS_PUBLISHED = {**TREE, "level_weights": "equal"}

PAPER = (
    PaperMethod("SW+EMS", (*ALL, *COVERED), WAVE),
    PaperMethod("SW+EM", ALL, {**WAVE, "estimator": "em"}),
    PaperMethod("HH-ADMM", ALL, AS_PUBLISHED),
    PaperMethod("CFO-16", ALL, {"bins": 16}),
    PaperMethod("CFO-32", ALL, {"bins": 32}),
    PaperMethod("CFO-64", ALL, {"bins": 64}),
    PaperMethod("HH", RANGES, {**AS_PUBLISHED, "estimator": "hh"}),
    PaperMethod("HaarHRR", RANGES, {"mechanism": "haar"}),
    PaperMethod("SR", MOMENTS, {"mechanism": "stochastic_rounding"}),
    PaperMethod("PM", MOMENTS, {"mechanism": "piecewise"}),
)
OURS = (
    PaperMethod("adaptive SW+EMS", ALL, {**WAVE, "smoothing": "adaptive"}, ours=True),
    PaperMethod("discrete SW+EMS", ALL, DISCRETE, ours=True),
    PaperMethod("SW+log-spline", ALL, {**DISCRETE, "estimator": "log_spline"}, ours=True),
    PaperMethod("four widths+EMS", ALL, FOUR_WIDTHS, ours=True),
    PaperMethod("four widths+log-spline", ALL, {**FOUR_WIDTHS, "estimator": "log_spline"}, ours=True),
    PaperMethod("weighted tree", ALL, {**TREE, "level_weights": "variance"}, ours=True),
    PaperMethod("coarse-first tree", ALL, {**TREE, "level_weights": "variance", "level_decay": 0.7}, ours=True),
)
BESIDE = {
    "adaptive SW+EMS": "SW+EMS",
    "discrete SW+EMS": "SW+EMS",
    "SW+log-spline": "SW+EMS",
    "four widths+EMS": "SW+EMS",
    "four widths+log-spline": "SW+EMS",
    "weighted tree": "HH-ADMM",
    "coarse-first tree": "HH-ADMM",
}
"""The paper's method that each of ours is held against."""
CONTENDERS = ("discrete SW+EMS", "SW+log-spline", "four widths+log-spline")
"""Those of ours that rivals are held against, besides SW+EMS."""

RATIOS = (0.0, 0.2, 0.4, 0.6, 0.8)
SHAPES = (
    *(
        PaperMethod(f"ratio {ratio}" if ratio else "triangle", ALL, {"mechanism": "general_wave", "wave_ratio": ratio})
        for ratio in RATIOS
    ),
    PaperMethod("square", ALL, WAVE),
)

METHODS = {method.name: method for method in (*PAPER, *OURS, *SHAPES)}
