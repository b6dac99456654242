"""The tables that `make peers` prints."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.answers import Estimates, Speed, errors, is_distribution
from hushgram._arrays import FloatArray
from hushgram.simulation import Summary

SCALES = {"W1": 1e3, "KS": 1e3, "MSE": 1e6}
"""Figures are printed in thousandths, squares in millionths."""

NOTHING = "–"


@dataclass(frozen=True)
class Library:
    """The results of a library after the run; `failure` is the reason if there are no figures."""

    name: str
    estimates: Mapping[str, Estimates]
    speeds: Mapping[str, Speed]
    failure: str | None = None


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """
    >>> print(table(["a", "b"], [["1", "2"]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [header, *rows]
    body = ["| " + " | ".join(cell.replace("|", "/") for cell in row) + " |" for row in lines]
    return "\n".join([body[0], "|" + "---|" * len(header), *body[1:]])


def figure(summary: Summary, scale: float) -> str:
    """A mean and its standard error, in as many digits as the error is worth.

    >>> figure(Summary(0.01234, 0.00056, 5), 1e3), figure(Summary(0.5, 0.04, 5), 1e3), figure(Summary(0.5, 0.0, 5), 1e3)
    ('12.3 ± 0.6', '500 ± 40', '500 ± 0')
    """
    mean, error = summary.mean * scale, summary.error * scale
    if not (math.isfinite(error) and error > 0):
        return f"{mean:.3g}" + ("" if math.isnan(error) else " ± 0")
    digits = max(0, -math.floor(math.log10(error)))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def rate(per_second: float) -> str:
    """Reports a second, in two digits.

    >>> rate(1234), rate(56_789_000), rate(345_678)
    ('1.2 k', '57 M', '350 k')
    """
    rounded = float(f"{per_second:.1e}")
    scale, unit = (1e6, " M") if rounded >= 1e6 else (1e3, " k") if rounded >= 1e3 else (1.0, "")
    return f"{rounded / scale:.3g}{unit}"


def overview(libraries: Sequence[Library], truths: Mapping[str, FloatArray], epsilon: float) -> str:
    """The short table: one ε, distributions, and speeds."""
    header = ["library", "method"]
    header += [f"{name}, {dataset}" for dataset in truths for name in SCALES]
    header += ["server, reports/s", "device, reports/s"]
    rows = []
    for library in libraries:
        rows += unavailable(library, len(header))
        for method, estimates in library.estimates.items():
            row = [library.name, method]
            for dataset, true in truths.items():
                summaries = errors(true, estimates.runs[dataset, epsilon], projected=True)
                row += [figure(summaries[name], SCALES[name]) for name in SCALES]
            speed = library.speeds.get(method)
            rows.append([*row, rate(speed.server), rate(speed.device)] if speed else [*row, NOTHING, NOTHING])
    return table(header, rows)


def details(libraries: Sequence[Library], dataset: str, true: FloatArray, epsilons: Sequence[float]) -> str:
    """Every figure of one data set: estimates as they are, and projected where they are not distributions."""
    header = ["library", "method", "read"] + [f"{name}, ε = {epsilon:g}" for name in SCALES for epsilon in epsilons]
    rows = []
    for library in libraries:
        rows += unavailable(library, len(header))
        for method, estimates in library.estimates.items():
            runs = [estimates.runs[dataset, epsilon] for epsilon in epsilons]
            plain = all(is_distribution(estimate) for estimate in runs)
            for projected in (False,) if plain else (False, True):
                summaries = [errors(true, estimate, projected) for estimate in runs]
                cells = [figure(estimate[name], SCALES[name]) for name in SCALES for estimate in summaries]
                rows.append([library.name, method, "projected" if projected else "as it is", *cells])
    return table(header, rows)


def audits(libraries: Sequence[Library], epsilon: float) -> str:
    """What the samples of each mechanism say about its ε."""
    header = ["library", "method", "reports of each value", "ε promised", "ε shown, at 99.9 % confidence", "verdict"]
    rows = []
    for library in libraries:
        rows += unavailable(library, len(header))
        for method, estimates in library.estimates.items():
            if estimates.audit is not None:
                epsilon_shown = estimates.audit.epsilon_at_least()
                verdict = "promise broken" if epsilon_shown > epsilon else "nothing against it"
                rows.append(
                    [
                        library.name,
                        method,
                        str(estimates.audit.reports),
                        f"{epsilon:g}",
                        f"≥ {max(epsilon_shown, 0):.2f}",
                        verdict,
                    ]
                )
    return table(header, rows)


def unavailable(library: Library, columns: int) -> list[list[str]]:
    if library.failure is None:
        return []
    return [[library.name, f"not measured: {library.failure}", *[NOTHING] * (columns - 2)]]
