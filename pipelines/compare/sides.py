"""What is compared: of the results in a folder, those of each side, added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from hushgram import Collection
from hushgram._validation import suggest
from hushgram.distribution import Distribution
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.formatting import clocks_of, span
from hushgram.schemas.records import Histogram, Key, Snapshot
from hushgram.schemas.window_key import shared_reports
from hushgram.transforms.tallies import Tallies

Result = Snapshot | Histogram


@dataclass(frozen=True)
class Part:
    """Some of the results, under a name."""

    name: str
    results: tuple[Result, ...]

    @property
    def keys(self) -> list[Key]:
        return [result.key for result in self.results]


@dataclass(frozen=True)
class Side:
    """One side of a comparison; it is growing if one of its windows has not ended."""

    name: str
    keys: tuple[Key, ...]
    growing: bool
    distribution: Distribution


def of_groups(results: Sequence[Result], names: Sequence[str]) -> list[Part]:
    """The results of each group."""
    known = sorted({result.key.group for result in results if result.key.group is not None})
    if not known:
        raise UsageError("--groups: these results have no groups")
    for name in names:
        if name not in known:
            raise UsageError(f"--groups: got {name!r}, allowed: {', '.join(known)}{suggest(name, known)}")
    if len(set(names)) < len(names):
        raise UsageError(f"--groups: named twice: {next(name for name in names if names.count(name) > 1)}")
    return [Part(name, tuple(result for result in results if result.key.group == name)) for name in names]


def of_the_others(results: Sequence[Result], name: str) -> Part:
    """The results of all groups but one: the total would contain it."""
    others = tuple(result for result in results if result.key.group not in (None, name))
    if not others:
        raise UsageError(f"--groups: {name!r} is the only group of these results, so that there are no others")
    return Part("the other groups", others)


def of_group(results: Sequence[Result], group: str | None) -> list[Result]:
    """The results of one group, or of all together."""
    if group is not None:
        return list(of_groups(results, [group])[0].results)
    return [result for result in results if result.key.group is None]


def of_window(option: str, results: Sequence[Result], text: str, zone: str | None) -> list[Result]:
    """The results of windows whose beginning, by the collection's clocks, starts with a text such as 2026-01-01T08."""
    found = [result for result in results if _beginning(result.key, zone).startswith(text.replace(" ", "T"))]
    if not found or not text:
        times = sorted({_beginning(result.key, zone) for result in results})
        shown = times if len(times) <= 6 else [*times[:3], "…", *times[-2:]]
        raise UsageError(f"{option}: no window begins at {text!r}, there are: {', '.join(shown)}")
    return found


def _beginning(key: Key, zone: str | None) -> str:
    try:
        moment = datetime.fromtimestamp(key.window_start / 1000, UTC).astimezone(clocks_of(zone))
    except (OverflowError, OSError, ValueError):
        return f"{key.window_start} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}"


def check_apart(first: Part, second: Part) -> None:
    """Refuses sides of one folder that have reports in common."""
    for one in first.keys:
        for other in second.keys:
            shared = shared_reports(one, other)
            if shared is not None:
                raise UsageError(f"{first.name} and {second.name} cannot be compared: {shared}")


def check_once(part: Part) -> None:
    """Refuses windows that overlap: their sum would count reports twice."""
    by_group: dict[str | None, list[Key]] = {}
    for key in part.keys:
        by_group.setdefault(key.group, []).append(key)
    for keys in by_group.values():
        for one, other in pairwise(sorted(keys, key=lambda key: key.window_start)):
            if other.window_start < one.window_end:
                windows = f"{span(one)} and {span(other)} UTC"
                raise UsageError(f"{part.name}: windows overlap, and cannot be added up: {windows}; choose one of them")


def make_side(part: Part, collection: Collection | None) -> Side:
    """A side estimated from the sum of its tallies; without a collection, as its one snapshot has it."""
    growing = any(result.pane.timing == "early" for result in part.results)
    return Side(
        part.name, tuple(part.keys), growing, _stored(part) if collection is None else _estimate(part, collection)
    )


def _estimate(part: Part, collection: Collection) -> Distribution:
    check_once(part)
    histograms = (result for result in part.results if isinstance(result, Histogram))
    merged = Tallies.merge(Tallies(dict(histogram.tallies)) for histogram in histograms)
    try:
        return collection.estimate({revision: counts for revision, (_, counts) in merged.parts.items()})
    except ValueError as error:  # a revision that the file no longer lists, a tally of another length
        raise UsageError(f"{collection.name}: {error}") from None


def _stored(part: Part) -> Distribution:
    snapshots = [result for result in part.results if isinstance(result, Snapshot)]
    if len(snapshots) > 1:
        raise UsageError(
            f"{part.name}: {len(snapshots)} snapshots cannot be added up: choose one window, or give --collections, "
            "for their histograms can"
        )
    return snapshots[0]
