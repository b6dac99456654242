"""Simulated devices: what they measure and send, and the truth that nobody else sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from hushgram import Collection
from hushgram._arrays import FloatArray, IntArray
from hushgram.manifest.event_times import device_slice
from hushgram.pipelines.simulate.shapes import Draw
from hushgram.sampling import simulation_generator
from hushgram.schemas.columns import Labels
from hushgram.schemas.writer import Octets, pack_batch
from hushgram.transforms.collection_index import cell_width

CELLS_PER_BATCH = 1000
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Devices:
    """Of each device what it measured, when, in which group (its place; behind the last is none), and its cell."""

    values: FloatArray
    times: IntArray
    groups: IntArray
    cells: npt.NDArray[np.unsignedinteger[Any]]

    def take(self, rows: Any) -> Devices:
        return Devices(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def together(cls, parts: Sequence[Devices]) -> Devices:
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return self.times.size


@dataclass(frozen=True)
class Fleet:
    """The devices of one collection: what draws their values, and the generator behind all that is random of them."""

    collection: Collection
    draw: Draw
    rng: np.random.Generator
    group_draws: Mapping[str, Draw] = field(default_factory=dict)
    """What draws the values of groups that differ from the others."""

    def simulate(self, times: IntArray) -> Devices:
        """Some of them, which report at given times."""
        return simulate_devices(self.collection, self.draw, times, self.rng, self.group_draws)


def fleet_generator(seed: int, collection: Collection, *request: object) -> np.random.Generator:
    """The random stream of one collection and one request, such as a source of values, a number and a span of time.

    An equal request repeats its reports; any other has reports of its own, although the seed is the same: collections,
    groups and days that are simulated one by one share neither noise nor ids.
    """
    return simulation_generator(seed, "fleet", collection.name, collection.revision, *map(str, request))


def simulate_devices(
    collection: Collection,
    draw: Draw,
    times: IntArray,
    rng: np.random.Generator,
    group_draws: Mapping[str, Draw] = MappingProxyType({}),
) -> Devices:
    """Devices that report at given times. Their noise also depends on their values: a file may have changed."""
    values, labels = np.array(draw(times.size, rng), dtype=np.float64), len(collection.groups)
    groups = rng.integers(0, labels, times.size) if labels else np.zeros(times.size, dtype=np.int64)
    for label, own in group_draws.items():
        members = groups == collection.groups.index(label)
        values[members] = own(int(members.sum()), rng)
    return Devices(values, times, groups, collection.simulate(values, seed=int(rng.integers(2**63))))


def columns(
    collection: Collection, devices: Devices, ids: np.random.Generator | None
) -> tuple[str, str, IntArray, IntArray, Labels, Octets | None]:
    """One Report for each device, as the codec takes them."""
    labels = Labels((*collection.groups, None), devices.groups)
    random = None if ids is None else _random_ids(ids, len(devices))
    return collection.name, collection.revision, devices.cells.astype(np.int64), devices.times, labels, random


def _random_ids(rng: np.random.Generator, count: int) -> Octets:
    return np.frombuffer(rng.bytes(16 * count), dtype=np.uint8).reshape(-1, 16)


def batches(
    collection: Collection, devices: Devices, ids: np.random.Generator | None, report_ids: bool = False
) -> Iterator[tuple[IntArray, dict[str, Any]]]:
    """ReportBatches, and whose reports each holds: of one group and one slice of time; the time is the first one's.

    With `report_ids` each report has an id of its own, and the time is cut as devices cut it: it is that of them all.
    """
    width = cell_width(collection.mechanism.cells)
    names = (*collection.groups, None)
    length, first = device_slice(collection.windows)
    slices = (devices.times - first) // length if report_ids else collection.windows.slice_numbers(devices.times)
    order = np.lexsort((devices.times, devices.groups, slices))
    ends = np.flatnonzero(np.diff(slices[order]) | np.diff(devices.groups[order])) + 1
    for run in np.split(order, ends):
        for start in range(0, run.size, CELLS_PER_BATCH):
            part = run[start : start + CELLS_PER_BATCH]
            batch = pack_batch(
                collection.name,
                collection.revision,
                devices.cells[part].astype(np.int64),
                width,
                event_time=int(slices[part[0]]) * length + first if report_ids else int(devices.times[part[0]]),
                group=names[int(devices.groups[part[0]])],
                ids=_random_ids(ids, part.size) if report_ids and ids is not None else None,
            )
            yield part, batch if ids is None or report_ids else {**batch, "id": ids.bytes(16)}


def truth(collection: Collection, devices: Devices) -> Iterator[dict[str, Any]]:
    """Of every window and group: how many, their mean and quantiles, after the clipping that devices do."""
    clipped, times = np.clip(devices.values, collection.low, collection.high), devices.times
    setting = collection.windows
    slices = np.unique(setting.slice_numbers(times)).tolist()
    for begin, end in sorted({window for part in slices for window in setting.holding(setting.slice_start(part))}):
        inside = (times >= begin) & (times < end)
        of_groups = [(label, inside & (devices.groups == place)) for place, label in enumerate(collection.groups)]
        for label, members in [(None, inside), *of_groups]:
            if members.any():
                yield {
                    "collection": collection.name,
                    "group": label,
                    "window_start": begin,
                    "window_end": end,
                    "reports": int(members.sum()),
                    "mean": float(clipped[members].mean()),
                    "quantiles": {str(share): float(np.quantile(clipped[members], share)) for share in SHARES},
                }
