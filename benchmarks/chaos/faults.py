"""How each kind of fault is done, and what heals it. What a fault has ended, `Site.revive` starts again."""

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
from benchmarks.chaos.site import AWAY, Site
from devtools.processes import eventually
from hushgram.transforms.sinks.postgresql_migrations import TABLE

Heal = Callable[[], None]
Part = TypeVar("Part")
OURS = "FROM pg_stat_activity WHERE application_name = 'hushgram'"


def inflict(site: Site, injury: Injury) -> Heal:
    """Does it; what is returned undoes it."""
    return DEEDS[injury.kind.name](site, random.Random(injury.pick))


def _nothing() -> None:
    """Nothing to undo: what was ended is started again."""


def _one(parts: Iterable[Part], chance: random.Random) -> Part:
    return chance.choice(list(parts))


def _kill_task_manager(site: Site, chance: random.Random) -> Heal:
    site.cluster.kill_task_manager(chance.randrange(len(site.cluster.task_managers)))
    return _nothing


def _kill_job_manager(site: Site, chance: random.Random) -> Heal:
    site.cluster.kill_job_manager()
    return _nothing


def _kill_worker(site: Site, chance: random.Random) -> Heal:
    for pid in _a_worker(site, chance):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return _nothing


def _kill_pool(site: Site, chance: random.Random) -> Heal:
    site.cluster.kill_pool()
    return _nothing


def _kill_broker(site: Site, chance: random.Random) -> Heal:
    site.broker.kill()
    return _nothing


def _kill_database(site: Site, chance: random.Random) -> Heal:
    site.database.kill()
    return _nothing


def _kill_backend(site: Site, chance: random.Random) -> Heal:
    """One that serves the stream; where it is between two connections, any process of the server."""
    serving = [pid for [pid] in site.sql(f"SELECT pid {OURS}")] or site.database.serving()
    with suppress(ProcessLookupError):
        os.kill(_one(serving, chance), signal.SIGKILL)
    return _nothing


def _a_worker(site: Site, chance: random.Random) -> list[int]:
    """None where another fault has ended them all."""
    workers = site.cluster.workers()
    return [_one(workers, chance)] if workers else []


def _freeze(pids: Iterable[int]) -> Heal:
    stopped = list(pids)
    for pid in stopped:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def thaw() -> None:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    return thaw


def _freeze_task_manager(site: Site, chance: random.Random) -> Heal:
    return _freeze(_one(site.cluster.task_managers, chance).members())


def _freeze_job_manager(site: Site, chance: random.Random) -> Heal:
    return _freeze(site.cluster.named("jobmanager").members())


def _freeze_worker(site: Site, chance: random.Random) -> Heal:
    return _freeze(_a_worker(site, chance))


def _freeze_pool(site: Site, chance: random.Random) -> Heal:
    return _freeze(site.cluster.named("pool").members())


def _freeze_broker(site: Site, chance: random.Random) -> Heal:
    return _freeze(pid for process in site.broker.processes for pid in process.members())


def _freeze_database(site: Site, chance: random.Random) -> Heal:
    return _freeze([*(process.pid for process in site.database.processes), *site.database.serving()])


def _fill(name: str) -> Callable[[Site, random.Random], Heal]:
    def deed(site: Site, chance: random.Random) -> Heal:
        site.disks[name].fill()
        return site.disks[name].free

    return deed


def _protect_output(site: Site, chance: random.Random) -> Heal:
    disk: Disk = site.disks["output"]
    disk.write_protect(True)
    return lambda: disk.write_protect(False)


def _rename_output(site: Site, chance: random.Random) -> Heal:
    away = site.output.with_name("renamed")
    site.output.rename(away)
    return lambda: put_back(away, site.output)


def put_back(away: Path, output: Path) -> None:
    """Gives a directory its name back, with all that was written under that name in the meantime."""
    others: list[Path] = []

    def renamed() -> bool:
        if output.exists():
            others.append(output.with_name(f"meanwhile-{len(others)}"))
            output.rename(others[-1])
        away.rename(output)  # which fails if the stream has made it anew since
        return True

    eventually(f"{output} to have its name back", renamed)
    for other in others:
        for path in other.rglob("[!.]*.*"):
            target = output / path.relative_to(other)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
        shutil.rmtree(other)


def _rename_table(site: Site, chance: random.Random) -> Heal:
    site.sql(f"ALTER TABLE {TABLE} RENAME TO {AWAY}")

    def rename_back() -> None:
        site.sql(f"ALTER TABLE {AWAY} RENAME TO {TABLE}")

    return rename_back


def _restart_database(site: Site, chance: random.Random) -> Heal:
    site.database.stop()
    return _nothing


def _terminate(site: Site, chance: random.Random) -> Heal:
    site.sql(f"SELECT pg_terminate_backend(pid) {OURS}")
    return _nothing


def _cut(part: str, action: str) -> Callable[[Site, random.Random], Heal]:
    def deed(site: Site, chance: random.Random) -> Heal:
        proxy = site.broker_proxy if part == "broker" else site.database_proxy
        getattr(proxy, action)()
        return proxy.heal

    return deed


DEEDS: dict[str, Callable[[Site, random.Random], Heal]] = {
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
