"""A run: fault after fault, each healed, recovered from and checked before the next."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.chaos import table
from benchmarks.chaos.fleet import ChaosFleet
from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.schedule import Fault
from benchmarks.chaos.sender import Sender
from benchmarks.chaos.site import PARTITIONS, TOPIC, Site
from benchmarks.chaos.table import Outcome
from benchmarks.chaos.watch import FAILURES, LostError, Watch, problems_of
from hushgram import load_collections

RATE = 60.0
"""Uploads a second."""


@dataclass(frozen=True)
class ChaosPlan:
    """The plan of a run: its seed, its faults, when it ends, and its folder."""

    seed: int
    faults: Iterator[Fault]
    minutes: float
    """After the stream has come up; no fault begins later."""
    folder: Path
    with_disks: bool
    until_last_letter: bool = True
    """Whether it ends when every letter has come: a minute of receipt and some seconds after the last report."""
    rate: float = RATE
    say: Callable[[str], None] = print


def run(plan: ChaosPlan) -> list[Outcome]:
    """The outcomes, the last of them perhaps a loss: then the run has ended there, and its evidence is kept."""
    with ExitStack() as stack:
        site = stack.enter_context(Site(plan.folder, plan.with_disks))
        plan.say(f"Kafka, Flink and PostgreSQL run, and job {site.job} on them; logs are in {plan.folder}")
        collections = load_collections(site.collections_file)
        ledger = Ledger(collections)
        fleet = ChaosFleet(collections, plan.seed)
        address = site.broker_proxy.address
        sender = stack.enter_context(Sender(fleet, ledger, address, TOPIC, PARTITIONS, plan.rate))
        watch = Watch(site, ledger, sender)
        try:
            outcomes = _strike_all(plan, watch)
        except Exception:
            keep_evidence(plan.folder, site)
            raise
        books = ledger.books()
        letters = sum(books.letters.values())
        plan.say(f"{books.reports:,} reports sent to be counted, {letters:,} reports and messages to be refused")
        if any(outcome.problems for outcome in outcomes):
            keep_evidence(plan.folder, site)
    return outcomes


def _strike_all(plan: ChaosPlan, watch: Watch) -> list[Outcome]:
    outcomes: list[Outcome] = []
    watch.until_first_pane()
    watch.until_whole(time.time())
    ends_at = time.monotonic() + 60 * plan.minutes
    for fault in plan.faults:
        if time.monotonic() > ends_at:
            break
        time.sleep(fault.lead_seconds)
        clock, outcome = time.strftime("%H:%M:%S"), watch.strike(fault)
        plan.say(table.line(outcome, clock, str(LostError(outcome.problems)) if outcome.problems else watch.summary()))
        outcomes.append(outcome)
        if outcome.problems:
            return outcomes
    if outcomes and plan.until_last_letter:
        try:
            watch.until_the_last_letter()
            plan.say(f"at the end: {watch.summary()}")
        except FAILURES as error:
            plan.say(f"at the end: {error}")
            outcomes[-1] = replace(outcomes[-1], problems=problems_of(error))
    return outcomes


def keep_evidence(folder: Path, site: Site) -> None:
    """Saves output and logs from the run's own disks, and Flink's view of the job, which would vanish with the run."""
    (folder / "job.json").write_text(json.dumps(site.evidence(), indent=1))
    evidence = folder / "kept"
    shutil.copytree(site.disks["output"].path, evidence / "output", ignore=shutil.ignore_patterns(".ballast"))
    for log in folder.glob("disks/*/*/*.log"):
        shutil.copy(log, evidence)
