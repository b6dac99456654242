"""The abilities of each library, as read in the code of the pinned versions."""

from __future__ import annotations

LIBRARIES = ("hushgram", "pure-ldp", "multi-freq-ldpy", "opendp")

ABILITIES: dict[str, tuple[str, str, str, str]] = {
    "distribution of a number": ("waves with EMS, trees, Haar", "no", "no", "no"),
    "mean of a number": ("stochastic rounding, piecewise", "no", "no", "no"),
    "frequencies of categories": (
        "GRR, local hashing, OLH",
        "GRR, OLH, FLH, unary and histogram encoding, Hadamard, sketches, RAPPOR",
        "GRR, OLH, unary and histogram encoding, subset selection",
        "bit vectors; GRR without an estimator",
    ),
    "heavy hitters of a large domain": ("no", "PEM, SFP, TreeHistogram", "no", "no"),
    "several attributes of a device": ("no", "no", "SPL, SMP, RS+FD", "no"),
    "a device that reports again and again": (
        "no: k reports spend k·ε",
        "no",
        "memoised: L-GRR, L-OUE, dBitFlipPM …",
        "no",
    ),
    "confidence intervals, test of fit": ("yes", "no", "no; formulas of variance", "no"),
    "tallies that merge": (
        "`+`",
        "no; a server object counts",
        "no; a call takes all reports",
        "no; a call takes all reports",
    ),
    "windows, streams, late reports": ("yes", "no", "no", "no"),
    "reports of several ε in one estimate": ("yes", "no", "no", "no"),
    "a device's dice": (
        "exact integers, system's generator",
        "floats, Mersenne Twister",
        "floats, Mersenne Twister",
        "in compiled code, not looked into",
    ),
    "central model, accounting of budgets": ("no", "no", "no", "yes, its main purpose"),
}
