"""The collections behind results: those of a file, or as far as their snapshots tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from apache_beam.io.filesystems import FileSystems

from hushgram import Collection, CollectionError, Windows
from hushgram.local_days import DAY_MS
from hushgram.pipelines.cli.console import UsageError
from hushgram.pipelines.results import read_result_file, result_files
from hushgram.recognition import recognise
from hushgram.schemas.records import Histogram, Snapshot
from hushgram.transforms.sinks.layout import collection_folders

USUAL_BUCKETS, USUAL_MINIMUM = 1024, 1000
"""Of a collection that does not say otherwise."""
SNAPSHOTS_READ = 100
"""How many of the newest snapshots are read, about: file names are in the order of time. Each has the domain."""


@dataclass(frozen=True)
class Definitions:
    """The collections of a folder of results; without a file of them, they are recognised."""

    directory: str
    defined: Mapping[str, Collection] | None = None

    def find(self, name: str, histograms: Iterable[Histogram]) -> Collection | None:
        """That of some histograms; None while there is no snapshot of it, a `UsageError` if it tells nothing."""
        if self.defined is not None:
            if name not in self.defined:
                raise UsageError(f"--collections: does not define {name!r}, of which there are histograms")
            return self.defined[name]
        snapshots = list[Snapshot]()
        for path in self._newest_first(name):
            with suppress(FileNotFoundError):  # a better one has taken its place
                snapshots += read_result_file(path, "snapshots", Snapshot.from_avro)
            if len(snapshots) >= SNAPSHOTS_READ:
                break
        own = [snapshot for snapshot in snapshots if snapshot.key.collection == name]
        collection = recognise_collection(own, histograms)
        if snapshots and collection is None:
            raise UsageError(
                f"{name!r}: results do not tell its mechanism and ε, as they are unusual; give --collections FILE"
            )
        return collection

    def _newest_first(self, name: str) -> Iterator[str]:
        """The files of a collection's snapshots; those of earlier versions come last."""
        paths = sorted(result_files(self.directory, "snapshots"), reverse=True)
        for folder in reversed(collection_folders(name)):
            below = FileSystems.join(self.directory, "snapshots", folder, "")
            yield from (path for path in paths if path.startswith(below))


def recognise_collection(snapshots: Sequence[Snapshot], histograms: Iterable[Histogram] = ()) -> Collection | None:
    """A collection with the newest snapshot's domain that takes the revisions of all; None if it knows none.

    Both may be anyone's. Of the snapshots only the newest needs its probabilities. Revisions of another domain stay
    unknown to the collection.
    """
    if not snapshots:
        return None
    newest = max(snapshots, key=lambda snapshot: snapshot.key.window_start)
    dated = [(s.key.window_start, s.revisions) for s in snapshots]
    dated += [(histogram.key.window_start, tuple(histogram.tallies)) for histogram in histograms]
    revisions = [revision for _, own in sorted(dated, reverse=True) for revision in own]  # of the newest first
    buckets = USUAL_BUCKETS if newest.probabilities is None else newest.probabilities.size
    try:
        told_by_newest = () if newest.epsilon is None else (newest.epsilon,)
        collection = recognise(newest.key.collection, newest.domain, buckets, revisions, told_by_newest)
    except ValueError:  # a name or a domain that no collection has
        return None
    if collection is None:
        return None
    collection = replace(collection, minimum_reports=_minimum_reports(snapshots))
    with suppress(CollectionError):  # what another mechanism has, or no mechanism
        collection = replace(collection, estimator=newest.estimator)
    if newest.intervals == "any_shape":
        with suppress(CollectionError):  # which another mechanism had
            collection = replace(collection, intervals="any_shape")
    with suppress(CollectionError):  # a zone that this machine does not know
        # Whole days fit every zone; how long windows are does not matter here, each knows it.
        collection = replace(collection, windows=Windows(DAY_MS, DAY_MS, time_zone=newest.time_zone))
    return collection


def _minimum_reports(snapshots: Sequence[Snapshot]) -> int:
    """The least number that agrees with the status of all snapshots; the usual one where none tells."""
    too_few = max((snapshot.reports for snapshot in snapshots if snapshot.status == "too_few"), default=-1)
    enough = min((snapshot.reports for snapshot in snapshots if snapshot.status == "ok"), default=USUAL_MINIMUM)
    return max(min(enough, USUAL_MINIMUM), too_few + 1)
