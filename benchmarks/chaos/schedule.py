"""Which fault comes when: a pure function of the seed.

Faults come in rounds. A round is a permutation of all kinds, so that chance decides the order and no kind is forgotten;
some faults are joined by a second one that begins while the first lasts. Fault N depends on the seed and N only.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

SECOND_FAULT_SHARE = 0.25
LONG_FAULT_SHARE = 0.15


@dataclass(frozen=True)
class Kind:
    """One way to hurt one part. Two faults at once never have the same part."""

    action: str
    part: str
    phrase: str
    needs_disks: bool = False
    """Whether it takes disks of our own."""
    lasts: bool = True
    """Whether it goes on until it is healed; the others are over at once."""

    @property
    def name(self) -> str:
        return f"{self.action} {self.part}"


MOMENTARY = ("kill -9 a Python worker", "kill -9 a process of the database", "terminate")
KINDS = tuple(
    Kind(action, part, phrase, needs_disks=action in ("fill", "write-protect"), lasts=not phrase.startswith(MOMENTARY))
    for action, part, phrase in (
        ("kill", "TaskManager", "kill -9 a TaskManager"),
        ("kill", "JobManager", "kill -9 the JobManager"),
        ("kill", "workers", "kill -9 a Python worker"),
        ("kill-all", "workers", "kill -9 the worker pool and its workers"),
        ("kill", "broker", "kill -9 the broker"),
        ("kill", "database", "kill -9 the database server"),
        ("kill-backend", "database", "kill -9 a process of the database"),
        ("freeze", "TaskManager", "freeze a TaskManager"),
        ("freeze", "JobManager", "freeze the JobManager"),
        ("freeze", "workers", "freeze a Python worker"),
        ("freeze-all", "workers", "freeze the worker pool and its workers"),
        ("freeze", "broker", "freeze the broker"),
        ("freeze", "database", "freeze the database"),
        ("fill", "output", "fill the disk of the output"),
        ("fill", "state", "fill the disk of the checkpoints"),
        ("fill", "broker", "fill the disk of the broker"),
        ("fill", "database", "fill the disk of the database"),
        ("write-protect", "output", "make the output read-only"),
        ("rename", "output", "rename the output directory"),
        ("rename", "database", "rename the database table"),
        ("restart", "database", "restart the database"),
        ("terminate", "database", "terminate the database's connections"),
        ("stall", "broker", "stall connections to the broker"),
        ("reset", "broker", "reset connections to the broker"),
        ("refuse", "broker", "refuse connections to the broker"),
        ("stall", "database", "stall connections to the database"),
        ("reset", "database", "reset connections to the database"),
        ("refuse", "database", "refuse connections to the database"),
    )
)


@dataclass(frozen=True)
class Injury:
    """A kind of fault, when it begins and ends (seconds from the first), and a number in [0, 1) that picks a victim."""

    kind: Kind
    begins: float
    ends: float
    pick: float

    def __str__(self) -> str:
        delay = f" after {self.begins:.0f} s" if self.begins else ""
        duration = f" for {self.ends - self.begins:.0f} s" if self.kind.lasts else ""
        return f"{self.kind.phrase}{delay}{duration}"


@dataclass(frozen=True)
class Fault:
    """The injuries of fault number `number`, `lead_seconds` after the stream was last found whole."""

    number: int
    lead_seconds: float
    injuries: tuple[Injury, ...]

    def __str__(self) -> str:
        return "; ".join(map(str, self.injuries))


def fault(seed: int, number: int, kinds: Collection[Kind] = KINDS) -> Fault:
    """Fault number 1, 2, … of a seed.

    >>> fault(7, 3) == fault(7, 3), fault(7, 3) == fault(8, 3)
    (True, False)
    """
    ordered = list(kinds)
    round_number, index = divmod(number - 1, len(ordered))
    random.Random(f"{seed} round {round_number}").shuffle(ordered)
    rng = random.Random(f"{seed} fault {number}")
    lead = rng.uniform(1, 6)
    first = _injury(ordered[index], 0.0, rng)
    if rng.random() >= SECOND_FAULT_SHARE:
        return Fault(number, lead, (first,))
    others = [kind for kind in ordered if kind.part != first.kind.part]
    return Fault(number, lead, (first, _injury(rng.choice(others), rng.uniform(0, 8), rng)))


def _injury(kind: Kind, begins: float, rng: random.Random) -> Injury:
    """Short enough not to be noticed, or longer than Flink's heartbeats allow; now and then longer than a minute."""
    seconds = rng.uniform(45, 75) if rng.random() < LONG_FAULT_SHARE else rng.uniform(2, 15)
    return Injury(kind, begins, begins + (seconds if kind.lasts else 0), rng.random())
