"""Why a claim may not hold here, where we know or have good ground to think so; written by hand, by the claim's key."""

from __future__ import annotations

_NOISE = "Where noise decides a setting, the best of several rivals, chosen with hindsight, has luck on its side."
_FEW_BINS = (
    "A few bins average the noise within each, and smooth data lose little by it where noise is large; which number of "
    "them is best is chosen with hindsight."
)
_EVEN_LEVELS = (
    "HH-ADMM gives all levels the same weight, also the leaves, which are the noisiest; with weights (below) it comes "
    "closer."
)
_STAND_IN = "Our income is a stand-in, of fewer persons and another year; its spikes are not those of the paper's."

REASONS: dict[str, str] = {
    "overall": _NOISE,
    "spread": "The absolute value of a normal error deviates by 76 % of its mean, however many devices there are: "
    "that is what single numbers, such as the mean, show. Distances average over the domain.",
    "w1-next": f"{_EVEN_LEVELS} The exact solver is not the reason: ADMM tends to the same optimum. Against SW+EM: "
    f"{_FEW_BINS[0].lower()}{_FEW_BINS[1:]}",
    "w1-few-bins": "With two million devices the noise at ε = 0.5 is low enough for 32 bins.",
    "w1-flat-bins": "Where devices are few, noise is still a good part of the error at the largest ε, also of 16 bins.",
    "w1-many-bins": "Where devices are fewest and data smooth, noise still outweighs the bias of 16 bins.",
    "ks-best": "EM stops too late here: on Beta at ε = 1 its KS distance is least after a tenth of the steps that its "
    "rule takes, and grows from there on, as it fits noise. The greatest error of the curve shows that first.",
    "ks-income": "At ε = 0.5 the noise of the tree is greater than what smoothing takes away.",
    "range-best": f"Behind are short ranges above all, and the rivals ahead are bins. {_FEW_BINS}",
    "range-income": _NOISE,
    "mean-tree": "Keeping leaves from being negative adds mass where there is next to none, and so moves the mean: HH "
    "is unbiased on the same reports, HH-ADMM is not. Bins are projected likewise, but 16 are seldom negative.",
    "variance-others": _NOISE,
    "quantiles-best": f"The rivals ahead are bins. {_FEW_BINS}",
    "quantiles-em": "EM stops too late for quantiles, as for the KS distance.",
    "quantiles-tree": f"{_EVEN_LEVELS} The best of three binnings is chosen with hindsight.",
    "quantiles-income-bins": _STAND_IN,
    "quantiles-income": f"At small ε the noise of the tree is greater than what smoothing takes away. {_STAND_IN}",
    "shape-square": "Trapezoids with a ratio near 1 are all but square waves; the best of five has luck on its side, "
    "and of a hundred tests at 1 % one fails by chance.",
    "bandwidth": "b is chosen before there are data, by a bound on how much reports tell of values; what is best "
    "depends on the data a little. Errors are flat around the best b, and the best of twelve has luck on its side.",
    "bandwidth-others": "b is chosen before there are data, and for no metric in particular. The best of twelve has "
    "luck on its side.",
    "buckets-beta": "W1 is taken on the finest grid for all, and neighbours such as 256 and 512 are close.",
    "buckets-others": "W1 is taken on the finest grid for all. Fewer buckets are smoothed over a wider span and stop "
    "sooner: what is best depends on noise against detail, and is flat around its optimum.",
}
