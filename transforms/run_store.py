"""The folder of batch runs, read and written: manifests, commits, sums over runs, and what is left over."""

from __future__ import annotations

import fcntl
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems

from hushgram.schemas.reader import avro_records
from hushgram.schemas.records import Histogram, Key
from hushgram.transforms.filesystem import match_files, open_file, write_atomically
from hushgram.transforms.runs import (
    Attempt,
    CountedFile,
    CountedIds,
    Manifest,
    Objection,
    RunError,
    check_files,
    objection,
    run_folder,
    touched,
)
from hushgram.transforms.sinks.files import safe_name, window_name
from hushgram.transforms.tallies import Tallies

Result = TypeVar("Result")
MANIFEST = "run.json"
REFUSAL = "refused.json"
HISTOGRAMS, DEAD_LETTERS = "histograms", "dead_letters"
LISTINGS = 5
"""So often a folder is listed anew when files go while it is read."""


def committed_runs(directory: str) -> list[Manifest]:
    """The runs that count: those with a manifest, except the ones that another run has replaced."""
    found = listed_again_if_gone(lambda: [_read_manifest(path) for path in _manifests(directory)])
    replaced = {identity for run in found for identity in run.replaces}
    return sorted((run for run in found if run.identity not in replaced), key=lambda run: run.name)


def _manifests(directory: str) -> list[str]:
    return [file.path for file in match_files(f"*/{MANIFEST}", FileSystems.join(directory, "runs")).files]


def _read_manifest(path: str) -> Manifest:
    with open_file(path) as stream:
        data = stream.read()
    try:
        return Manifest.from_json(data.decode())
    except ValueError as error:
        raise RunError(f"{path}: {error}") from None


def listed_again_if_gone(read: Callable[[], Result]) -> Result:
    """What `read` lists and opens, once more if a file has gone in between: another run may have replaced it."""
    for _ in range(LISTINGS - 1):
        with suppress(FileNotFoundError):
            return read()
    return read()


def plan_attempt(
    directory: str,
    name: str,
    files: Sequence[CountedFile],
    runs: Sequence[Manifest],
    generation: int = 0,
    replace: Sequence[str] = (),
) -> Attempt:
    """The attempt that a run may start, given the committed runs of its folder; or a `RunError`."""
    by_name = {run.name: run for run in runs}
    for one in replace:
        if one not in by_name:
            known = ", ".join(sorted(by_name)) or "none"
            raise RunError(f"--replace: got {one!r}, which is no run of {directory}; its runs: {known}")
    others = [run for run in runs if run.name != name and run.name not in replace]
    check_files(files, others)
    highest = max((run.generation for run in runs), default=0)
    return Attempt(
        directory=directory,
        name=name,
        attempt=f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}",
        files=tuple(files),
        generation=max(generation, highest),
        is_correction=generation > highest,
        others=tuple(run.identity for run in others),
        known_ids=tuple(_kept_ids(directory, others)),
        replaces=tuple(by_name[one].identity for one in replace if one != name),
    )


def _kept_ids(directory: str, runs: Iterable[Manifest]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The ids that runs still keep; those that have expired are removed, the first shard first."""
    for run in runs:
        folder = run_folder(directory, run.identity)
        if run.ids.shards and FileSystems.exists(ids_paths(folder, run.ids.shards)[0]):
            yield folder, run.ids.shards


def commit(plan: Attempt, windows: Mapping[Key, int], ids: CountedIds) -> Manifest | None:
    """Makes an attempt count, all at once; None if it was refused, with the reason in its folder.

    A second call for the same attempt changes nothing: engines may repeat a step.
    """
    with _locked(plan.directory):
        runs = committed_runs(plan.directory)
        done = next((run for run in runs if run.identity == (plan.name, plan.attempt)), None)
        if done is not None:
            return done
        refusal = objection(plan, runs, windows, bool(ids.shards))
        if refusal is not None:
            write_atomically(FileSystems.join(plan.folder, REFUSAL), json.dumps(vars(refusal)).encode())
            return None
        manifest = Manifest(
            plan.name,
            plan.attempt,
            plan.generation,
            time.time_ns() // 1_000_000,
            plan.files,
            {**dict.fromkeys(touched(plan, runs), 0), **windows},
            ids,
            plan.replaces,
        )
        path = FileSystems.join(plan.directory, "runs", safe_name(plan.name), MANIFEST)
        write_atomically(path, manifest.to_json().encode())
    return manifest


def outcome(plan: Attempt) -> Objection | None:
    """Why an attempt that has ended was not committed; None if it was."""
    if any(run.identity == (plan.name, plan.attempt) for run in committed_runs(plan.directory)):
        return None
    path = FileSystems.join(plan.folder, REFUSAL)
    if not FileSystems.exists(path):
        return Objection(f"run {plan.name!r} was replaced by one that started later", passing=False)
    with FileSystems.open(path) as stream:
        return Objection(**json.loads(stream.read()))


def sum_window(runs: Sequence[Manifest], directory: str, keys: Sequence[Key]) -> dict[Key, Tallies]:
    """The tallies of one window, of each group and of all together, summed over all runs that have reports in it.

    `keys` are those that must have an answer, even if no report is left of them.
    """
    total: dict[Key, Tallies] = {key: Tallies() for key in keys}
    name = window_name(keys[0])
    for run in runs:
        if not any(reports and window_name(key) == name for key, reports in run.windows.items()):
            continue
        path = FileSystems.join(run_folder(directory, run.identity), HISTOGRAMS, *f"{name}-g0.avro".split("/"))
        with FileSystems.open(path) as stream:
            data = stream.read()
        for histogram in map(Histogram.from_avro, avro_records(data)):
            total.setdefault(histogram.key, Tallies()).add(Tallies(dict(histogram.tallies), histogram.events))
    return total


def remove_leftovers(plan: Attempt) -> None:
    """Removes what no longer counts: earlier attempts of this run, runs that it replaced, and ids that have expired."""
    runs_folder = FileSystems.join(plan.directory, "runs")
    own = FileSystems.join(runs_folder, safe_name(plan.name))
    _delete([FileSystems.join(own, attempt) for attempt in _folders(own) if attempt < plan.attempt])
    _delete([FileSystems.join(runs_folder, safe_name(name)) for name, _ in plan.replaces])
    now_ms = time.time_ns() // 1_000_000
    for run in committed_runs(plan.directory):
        if run.ids.shards and run.ids.expire_ms < now_ms:
            _delete(ids_paths(run_folder(plan.directory, run.identity), run.ids.shards))


def ids_paths(folder: str, shards: Sequence[int]) -> list[str]:
    """The files of a run's counted ids, one for each shard."""
    return [FileSystems.join(folder, "ids", f"{shard:02d}") for shard in shards]


def _folders(directory: str) -> list[str]:
    """The names of the folders in a directory; an object store knows only the files below them."""
    if "://" not in directory:
        return [path.name for path in Path(directory).iterdir() if path.is_dir()]
    found = [file.path for match in FileSystems.match([f"{directory}/**"]) for file in match.metadata_list]
    below = (path.removeprefix(directory).strip("/").split("/") for path in found)
    return sorted({parts[0] for parts in below if len(parts) > 1})


def _delete(paths: Sequence[str]) -> None:
    """Removes files and folders; another run may have done so already."""
    for path in paths:
        with suppress(BeamIOError, FileNotFoundError):
            FileSystems.delete([path])


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """One commit at a time, where the folder is a local one; an object store has no locks, and commits are short."""
    if "://" in directory:
        yield
        return
    folder = Path(directory) / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
