"""Old versions of an Iceberg table go, with the files that only they have: else each commit would add some for ever.

pyiceberg takes versions out of the metadata and leaves their files. So files are collected before the versions go, and
deleted once they have gone; a kill in between leaves files that no version has, and never a version without its files.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot as Version
from pyiceberg.table.snapshots import ancestors_of
from pyiceberg.table.update import AssertRefSnapshotId

from hushgram.transforms.sinks.patience import one_line

LOG = logging.getLogger(__name__)

AGE = TableProperties.MAX_SNAPSHOT_AGE_MS
"""How old a version may become: Iceberg's own property. Nothing goes from a table that does not have it."""
DELETABLE = "gc.enabled"
"""Iceberg's own property, too: false for a table whose files another one may share."""
ENOUGH, AT_ONCE = 60, 120
"""So many versions go together, since each time all manifests that stay are read."""


def clean_up(table: Table, what: str) -> None:
    """After a commit, which stands whatever happens here: what does not go now goes after another one."""
    try:
        let_old_versions_go(table, time.time_ns() // 1_000_000)
    except Exception as error:
        LOG.warning("%s: old versions stay for now: %s", what, one_line(error))


def let_old_versions_go(table: Table, now_ms: int) -> int:
    """Those that are older than the table allows, once they are enough; returns how many.

    Never the current one, and none of a table whose versions are no simple line, where a branch, a tag or somebody
    who rolled back may need what looks old. Raises CommitFailedException if somebody else has committed meanwhile.
    """
    old, kept = _split_by_age(table, now_ms)
    if len(old) < ENOUGH:
        return 0
    # Versions are a line: what neither the first that stays nor the last one has, those between do not have either.
    files = _files_of_only(table, old, (kept[0], kept[-1]))
    expiring = table.maintenance.expire_snapshots().by_ids([version.snapshot_id for version in old])
    unchanged = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": kept[-1].snapshot_id})
    expiring._requirements = (unchanged,)
    expiring.commit()
    _delete(table, files)
    return len(old)


def _split_by_age(table: Table, now_ms: int) -> tuple[list[Version], list[Version]]:
    """The versions that may go, and those that stay, oldest first."""
    properties, metadata = table.metadata.properties, table.metadata
    line = list(ancestors_of(metadata.current_snapshot(), metadata))[::-1]
    is_simple = len(line) == len(metadata.snapshots) and metadata.refs.keys() <= {MAIN_BRANCH}
    if AGE not in properties or properties.get(DELETABLE, "true").lower() == "false" or not is_simple:
        return [], line
    since = now_ms - int(properties[AGE])
    count = next((place for place, version in enumerate(line) if version.timestamp_ms >= since), len(line))
    count = min(count, AT_ONCE, len(line) - 1)
    return line[:count], line[count:]


def _files_of_only(table: Table, old: Sequence[Version], kept: Iterable[Version]) -> list[str]:
    """Data, manifests and lists of manifests, in the order in which they may be deleted."""
    staying = set(_manifests(table, kept))
    going = set(_manifests(table, old)) - staying
    data = set(_data_files(table, going))
    if data:
        data -= set(_data_files(table, staying))
    return [*sorted(data), *sorted(file.manifest_path for file in going), *(version.manifest_list for version in old)]


def _manifests(table: Table, versions: Iterable[Version]) -> Iterator[ManifestFile]:
    for version in versions:
        yield from version.manifests(table.io)


def _data_files(table: Table, manifests: Iterable[ManifestFile]) -> Iterator[str]:
    for manifest in manifests:
        yield from (entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))


def _delete(table: Table, files: Sequence[str]) -> None:
    """A file that cannot be deleted stays, though no version has it; one warning counts all such files."""
    errors = []
    for file in files:
        try:
            with suppress(FileNotFoundError):  # a bundle that is done again comes second
                table.io.delete(file)
        except OSError as error:
            errors.append(error)
    if errors:
        LOG.warning("%d of %d old files cannot be deleted: %s", len(errors), len(files), one_line(errors[0]))
