"""The settings to measure for each figure, and how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.paper.data import DATA
from benchmarks.paper.methods import METHODS, OURS, PAPER, SHAPES
from benchmarks.paper.rivals.measure import RIVALS
from benchmarks.paper.trials import Setting
from hushgram.mechanisms import best_bandwidth

EPSILONS = (0.5, 1.0, 1.5, 2.0, 2.5)
"""The paper's ε, and ours beyond them."""
BEYOND = (3.0, 4.0)
SHAPE_EPSILON = 1.0
SHAPE_BANDWIDTHS = (0.05, 0.12, 0.19, 0.26, 0.33)
BANDWIDTH_EPSILONS = (1.0, 2.0, 3.0, 4.0)
BANDWIDTHS = (0.01, 0.03, 0.06, 0.1, 0.14, 0.18, 0.22, 0.26, 0.3, 0.34, 0.38)
BUCKETS = (256, 512, 1024, 2048)


@dataclass(frozen=True)
class Effort:
    """How often each figure's settings are repeated, by the size of the data set, and how much of it there is."""

    name: str
    small: Mapping[str, int]
    large: Mapping[str, int]
    pipeline: int
    data: tuple[str, ...] = tuple(DATA)
    epsilons: tuple[float, ...] = (*EPSILONS, *BEYOND)
    rival_epsilons: tuple[float, ...] = (*EPSILONS, *BEYOND)
    shape_bandwidths: tuple[float, ...] = SHAPE_BANDWIDTHS
    bandwidth_epsilons: tuple[float, ...] = BANDWIDTH_EPSILONS
    bandwidths: tuple[float, ...] = BANDWIDTHS
    buckets: tuple[int, ...] = BUCKETS
    most_buckets: int = 1 << 16
    reports: int | None = None

    def runs(self, figure: str, data: str) -> int:
        return (self.large if DATA[data].reports > 1_000_000 else self.small)[figure]


QUICK = Effort(
    "quick",
    small={"methods": 16, "shapes": 4, "bandwidths": 6, "buckets": 8, "rivals": 16},
    large={"methods": 5, "shapes": 3, "bandwidths": 3, "buckets": 3, "rivals": 5},
    pipeline=5,
)
_HUNDRED = dict.fromkeys(QUICK.small, 100)
FULL = Effort("full", small=_HUNDRED, large=_HUNDRED, pipeline=20)


def settings(effort: Effort) -> list[Setting]:
    """All settings, the costly ones first, so that no process is left alone with them at the end."""
    unsorted = [*_shapes(effort), *_buckets(effort), *_methods(effort), *_bandwidths(effort), *_rivals(effort)]
    return sorted(unsorted, key=lambda setting: -DATA[setting.data].reports * (setting.figure != "bandwidths"))


def _setting(effort: Effort, figure: str, data: str, epsilon: float, *methods: str, **options: float) -> Setting:
    buckets = int(options.pop("buckets", min(DATA[data].buckets, effort.most_buckets)))
    runs = effort.runs(figure, data)
    return Setting(figure, data, epsilon, buckets, methods, runs, options.get("bandwidth"), effort.reports)


def _methods(effort: Effort) -> Iterator[Setting]:
    for data in effort.data:
        for epsilon in effort.epsilons:
            # Methods whose devices do the same read the same reports.
            methods_by_revision: dict[str, list[str]] = {}
            for method in (*PAPER, *OURS):
                buckets = min(DATA[data].buckets, effort.most_buckets)
                methods_by_revision.setdefault(method.collection(epsilon, buckets).revision, []).append(method.name)
            for names in methods_by_revision.values():
                yield _setting(effort, "methods", data, epsilon, *names)


def _rivals(effort: Effort) -> Iterator[Setting]:
    for data in effort.data:
        for epsilon in effort.rival_epsilons:
            for rival in RIVALS:
                yield _setting(effort, "rivals", data, epsilon, rival)


def _shapes(effort: Effort) -> Iterator[Setting]:
    for data in effort.data:
        for bandwidth in effort.shape_bandwidths:
            for method in SHAPES:
                yield _setting(effort, "shapes", data, SHAPE_EPSILON, method.name, bandwidth=bandwidth)


def _bandwidths(effort: Effort) -> Iterator[Setting]:
    for data in effort.data:
        for epsilon in effort.bandwidth_epsilons:
            for bandwidth in sorted({*effort.bandwidths, best_bandwidth(epsilon)}):
                yield _setting(effort, "bandwidths", data, epsilon, "SW+EMS", bandwidth=bandwidth)


def _buckets(effort: Effort) -> Iterator[Setting]:
    for data in effort.data:
        for epsilon in EPSILONS:
            for buckets in effort.buckets:
                yield _setting(effort, "buckets", data, epsilon, "SW+EMS", buckets=buckets)


assert len({*METHODS, *RIVALS}) == len(PAPER) + len(OURS) + len(SHAPES) + len(RIVALS), "names are used once"
