"""How each kind of fault is inflicted and healed. `Site.revive` starts again whatever a fault has ended."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from benchmarks.chaos.disks import Disk
from benchmarks.chaos.schedule import Injury
from benchmarks.chaos.site import RENAMED_TABLE, Site
from devtools.processes import eventually
from hushgram.transforms.sinks.postgresql_table import TABLE

Heal = Callable[[], None]
Part = TypeVar("Part")
OURS = "FROM pg_stat_activity WHERE application_name = 'hushgram'"


def inflict(site: Site, injury: Injury) -> Heal:
    """Inflicts an injury, and returns the function that heals it."""
    return INJURIES[injury.kind.name](site, random.Random(injury.pick))


def _heal_nothing() -> None:
    """Nothing to undo: whatever was ended is started again."""


def _choose(parts: Iterable[Part], rng: random.Random) -> Part:
    return rng.choice(list(parts))


def _kill_task_manager(site: Site, rng: random.Random) -> Heal:
    site.cluster.kill_task_manager(rng.randrange(len(site.cluster.task_managers)))
    return _heal_nothing


def _kill_job_manager(site: Site, rng: random.Random) -> Heal:
    site.cluster.kill_job_manager()
    return _heal_nothing


def _kill_worker(site: Site, rng: random.Random) -> Heal:
    for pid in _choose_worker(site, rng):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return _heal_nothing


def _kill_pool(site: Site, rng: random.Random) -> Heal:
    site.cluster.kill_pool()
    return _heal_nothing


def _kill_broker(site: Site, rng: random.Random) -> Heal:
    site.broker.kill()
    return _heal_nothing


def _kill_database(site: Site, rng: random.Random) -> Heal:
    site.database.kill()
    return _heal_nothing


def _kill_backend(site: Site, rng: random.Random) -> Heal:
    """One that serves the stream; where it is between two connections, any process of the server."""
    backends = [pid for [pid] in site.sql(f"SELECT pid {OURS}")] or site.database.backends()
    with suppress(ProcessLookupError):
        os.kill(_choose(backends, rng), signal.SIGKILL)
    return _heal_nothing


def _choose_worker(site: Site, rng: random.Random) -> list[int]:
    """The pid of a worker; an empty list where another fault has ended them all."""
    workers = site.cluster.workers()
    return [_choose(workers, rng)] if workers else []


def _freeze(pids: Iterable[int]) -> Heal:
    frozen = list(pids)
    for pid in frozen:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def thaw() -> None:
        for pid in frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return thaw


def _freeze_task_manager(site: Site, rng: random.Random) -> Heal:
    return _freeze(_choose(site.cluster.task_managers, rng).members())


def _freeze_job_manager(site: Site, rng: random.Random) -> Heal:
    return _freeze(site.cluster.find_process("jobmanager").members())


def _freeze_worker(site: Site, rng: random.Random) -> Heal:
    return _freeze(_choose_worker(site, rng))


def _freeze_pool(site: Site, rng: random.Random) -> Heal:
    return _freeze(site.cluster.find_process("pool").members())


def _freeze_broker(site: Site, rng: random.Random) -> Heal:
    return _freeze(pid for process in site.broker.processes for pid in process.members())


def _freeze_database(site: Site, rng: random.Random) -> Heal:
    return _freeze([*(process.pid for process in site.database.processes), *site.database.backends()])


def _fill(name: str) -> Callable[[Site, random.Random], Heal]:
    def injure(site: Site, rng: random.Random) -> Heal:
        site.disks[name].fill()
        return site.disks[name].free

    return injure


def _protect_output(site: Site, rng: random.Random) -> Heal:
    disk: Disk = site.disks["output"]
    disk.write_protect(True)
    return lambda: disk.write_protect(False)


def _rename_output(site: Site, rng: random.Random) -> Heal:
    renamed = site.output.with_name("renamed")
    site.output.rename(renamed)
    return lambda: put_back(renamed, site.output)


def put_back(renamed: Path, output: Path) -> None:
    """Gives a directory its name back, with all that was written under that name in the meantime."""
    others: list[Path] = []

    def try_rename() -> bool:
        if output.exists():
            others.append(output.with_name(f"meanwhile-{len(others)}"))
            output.rename(others[-1])
        renamed.rename(output)  # which fails if the stream has made it anew since
        return True

    eventually(f"{output} to have its name back", try_rename)
    for other in others:
        for path in other.rglob("[!.]*.*"):
            target = output / path.relative_to(other)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        shutil.rmtree(other)


def _rename_table(site: Site, rng: random.Random) -> Heal:
    site.sql(f"ALTER TABLE {TABLE} RENAME TO {RENAMED_TABLE}")

    def rename_back() -> None:
        site.sql(f"ALTER TABLE {RENAMED_TABLE} RENAME TO {TABLE}")

    return rename_back


def _restart_database(site: Site, rng: random.Random) -> Heal:
    site.database.stop()
    return _heal_nothing


def _terminate(site: Site, rng: random.Random) -> Heal:
    site.sql(f"SELECT pg_terminate_backend(pid) {OURS}")
    return _heal_nothing


def _cut(part: str, action: str) -> Callable[[Site, random.Random], Heal]:
    def injure(site: Site, rng: random.Random) -> Heal:
        proxy = site.broker_proxy if part == "broker" else site.database_proxy
        getattr(proxy, action)()
        return proxy.heal

    return injure


INJURIES: dict[str, Callable[[Site, random.Random], Heal]] = {
    "kill TaskManager": _kill_task_manager,
    "kill JobManager": _kill_job_manager,
    "kill workers": _kill_worker,
    "kill-all workers": _kill_pool,
    "kill broker": _kill_broker,
    "kill database": _kill_database,
    "kill-backend database": _kill_backend,
    "freeze TaskManager": _freeze_task_manager,
    "freeze JobManager": _freeze_job_manager,
    "freeze workers": _freeze_worker,
    "freeze-all workers": _freeze_pool,
    "freeze broker": _freeze_broker,
    "freeze database": _freeze_database,
    **{f"fill {name}": _fill(name) for name in ("output", "state", "broker", "database")},
    "write-protect output": _protect_output,
    "rename output": _rename_output,
    "rename database": _rename_table,
    "restart database": _restart_database,
    "terminate database": _terminate,
    **{
        f"{action} {part}": _cut(part, action)
        for part in ("broker", "database")
        for action in ("stall", "reset", "refuse")
    },
}
