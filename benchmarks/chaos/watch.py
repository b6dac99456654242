"""A stream under a fault: hurt, healed, waited for, and compared with what was sent to it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import psycopg

from benchmarks.chaos import verdict
from benchmarks.chaos.faults import inflict
from benchmarks.chaos.ledger import Books, Ledger
from benchmarks.chaos.results import Results, now_ms
from benchmarks.chaos.schedule import Fault
from benchmarks.chaos.sender import Sender
from benchmarks.chaos.site import Site
from benchmarks.chaos.table import Outcome
from devtools.processes import ProcessError, eventually

LIMIT_SECONDS = 300.0
"""For each thing that must come about after a fault."""
FLUSH_SECONDS = 120.0
"""For a broker that is back to take what has waited for it."""
FAILURES = (RuntimeError, OSError, psycopg.Error)
"""What is a fault's outcome, and not a mistake of the harness."""
MOST_LEFT_BEHIND = 8
"""Temporary files, for each fault: a process that dies while it writes leaves one behind, for each file it was at."""
SHOWN = 10
"""Problems that are printed; the others are counted."""


class LostError(RuntimeError):
    """Something that must not happen, with all that is known of it."""

    def __init__(self, problems: Sequence[str]) -> None:
        more = f"; and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
        super().__init__("; ".join(problems[:SHOWN]) + more)
        self.problems = tuple(problems)


class Watch:
    """A site under faults, and what was sent to it: hurts it, waits for it to recover, and compares."""

    def __init__(self, site: Site, ledger: Ledger, sender: Sender) -> None:
        self.site, self.ledger, self.sender = site, ledger, sender
        self.results = Results(site.output, lambda: ledger.books().tallies)
        self.left_behind: set[str] = set()

    def strike(self, fault: Fault) -> Outcome:
        healed, since = time.time(), time.monotonic()
        try:
            self._hurt_and_heal(fault)
            healed, since = time.time(), time.monotonic()
            self._until_caught_up()
            recovery = time.monotonic() - since
            self.until_whole(healed)
        except FAILURES as error:
            return Outcome(fault, time.monotonic() - since, problems_of(error))
        return Outcome(fault, recovery)

    def summary(self) -> str:
        books = self.ledger.books()
        letters = sum(self.results.letters().values())
        windows = len(self.results.snapshots())
        left = f", {len(self.left_behind)} temporary files left so far" if self.left_behind else ""
        return f"exact: {books.reports:,} reports, {letters:,} refused so far, {windows:,} windows{left}"

    def until_first_pane(self) -> None:
        self._until("the first pane", lambda: [] if self.results.tallies() else ["no pane was written"])

    def until_whole(self, healed: float) -> None:
        """In a pause of the sender: tallies exact, table the same, due dead letters there, every part back.

        `healed` is the time of day since when nothing is wrong.
        """
        self.sender.pause()
        try:
            self.sender.flush(FLUSH_SECONDS)
            sent, due = self.ledger.books(), self.ledger.letters_due(now_ms())
            self._until("exact tallies, dead letters and table", lambda: self._differences(sent, due, sent.letters))
            self._count_left_behind(healed)
        finally:
            self.sender.resume()

    def until_the_last_letter(self) -> None:
        """Every letter there is to be: the minutes of all messages are over."""
        self.sender.pause()
        self.sender.flush(FLUSH_SECONDS)
        sent = self.ledger.books()
        self._until("exact tallies and all dead letters", lambda: self._differences(sent, sent.letters, sent.letters))

    def _count_left_behind(self, healed: float) -> None:
        found = self.results.hidden_since_before(healed)
        new = set(found) - self.left_behind
        self.left_behind |= new
        if len(new) > MOST_LEFT_BEHIND:
            raise LostError([f"{len(new)} temporary files were left behind, such as {min(new)}"])

    def _hurt_and_heal(self, fault: Fault) -> None:
        """In the order of the schedule. Whatever was hurt is healed, also if something goes wrong on the way."""
        with ExitStack() as stack:
            started = time.monotonic()
            injuries = sorted(fault.injuries, key=lambda injury: injury.begins)
            wounds: list[tuple[float, _Once]] = []
            for moment in sorted({time for injury in injuries for time in (injury.begins, injury.ends)}):
                time.sleep(max(0.0, started + moment - time.monotonic()))
                for injury in injuries:
                    if injury.begins == moment:
                        heal = stack.enter_context(_Once(inflict(self.site, injury)))
                        wounds.append((injury.ends, heal))
                for ends, heal in wounds:
                    if ends <= moment:
                        heal()
        self._revive()

    def _revive(self) -> None:
        """A part that is started again may find another one still on its way up: a supervisor would try again."""
        for attempt in range(3):
            try:
                self.site.revive()
                return
            except ProcessError:
                if attempt == 2:
                    raise

    def _until_caught_up(self) -> None:
        """Everything that had been sent when the fault was healed is counted, while more is being sent."""
        self.sender.flush(FLUSH_SECONDS)
        sent = self.ledger.books()
        self._until("the stream to catch up", lambda: verdict.undercounted(self.results.tallies(), sent.tallies))

    def _differences(self, sent: Books, due: Counter[str], at_most: Counter[str]) -> list[str]:
        found = self.results.tallies()
        return [
            *verdict.undercounted(found, sent.tallies),
            *verdict.wrong_letters(self.results.letters(), due, at_most),
            *verdict.wrong_rows(self.site.rows(), self.results.snapshots()),
            *self.site.problems(),
        ]

    def _until(self, what: str, differences: Callable[[], Sequence[str]]) -> None:
        """Waits for there to be none. More than was sent, or a broken file, ends it at once."""
        latest: list[str] = []
        rest_seconds = [0.5]

        def none_left() -> bool:
            time.sleep(rest_seconds[0])
            self.sender.check()
            self._revive()
            started = time.monotonic()
            self.results.refresh()
            # Reading takes a core, which the engine has better use for.
            rest_seconds[0] = max(0.5, time.monotonic() - started)
            letters = verdict.wrong_letters(self.results.letters(), Counter(), self.ledger.books().letters)
            if too_much := [*self.results.problems, *letters]:
                raise LostError(too_much)
            try:
                latest[:] = differences()
            except psycopg.Error as error:
                latest[:] = [f"table: {error}"]
            return not latest

        try:
            eventually(what, none_left, LIMIT_SECONDS)
        except TimeoutError as error:
            raise LostError([str(error), *latest]) from None


class _Once:
    """A way to heal that is called at its time, and at the latest at the end of the block."""

    def __init__(self, heal: Callable[[], None]) -> None:
        self._heal: Callable[[], None] | None = heal

    def __call__(self) -> None:
        if (heal := self._heal) is not None:
            self._heal = None
            heal()

    def __enter__(self) -> _Once:
        return self

    def __exit__(self, *error: object) -> None:
        self()


def problems_of(error: BaseException) -> tuple[str, ...]:
    return error.problems if isinstance(error, LostError) else (f"{type(error).__name__}: {error}",)
