"""A stream under a fault: hurt, healed, waited for, and compared with the uploads that were sent to it."""

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
"""For each condition that must hold again after a fault."""
FLUSH_SECONDS = 120.0
"""For a broker that is back to take what has waited for it."""
FAILURES = (RuntimeError, OSError, psycopg.Error)
"""Errors that are a fault's outcome, and not a mistake of the harness."""
MOST_LEFT_BEHIND = 8
"""Temporary files, for each fault: a process that dies while it writes leaves one behind, for each file it was at."""
MOST_PRINTED = 10
"""Problems that are printed; the others are counted."""


class LostError(RuntimeError):
    """Something that must not happen, with all known details."""

    def __init__(self, problems: Sequence[str]) -> None:
        more = f"; and {len(problems) - MOST_PRINTED:,} more" if len(problems) > MOST_PRINTED else ""
        super().__init__("; ".join(problems[:MOST_PRINTED]) + more)
        self.problems = tuple(problems)


class Watch:
    """A site under faults, and the uploads sent to it: hurts it, waits for it to recover, and compares."""

    def __init__(self, site: Site, ledger: Ledger, sender: Sender) -> None:
        self.site, self.ledger, self.sender = site, ledger, sender
        self.results = Results(site.output, lambda: ledger.books().tallies)
        self.left_behind: set[str] = set()

    def strike(self, fault: Fault) -> Outcome:
        healed_at, since = time.time(), time.monotonic()
        try:
            self._hurt_and_heal(fault)
            healed_at, since = time.time(), time.monotonic()
            self._until_caught_up()
            recovery = time.monotonic() - since
            self.until_whole(healed_at)
        except FAILURES as error:
            return Outcome(fault, time.monotonic() - since, problems_of(error))
        return Outcome(fault, recovery)

    def summary(self) -> str:
        books = self.ledger.books()
        letters = sum(self.results.letters().values())
        windows = len(self.results.snapshots())
        leftovers = f", {len(self.left_behind)} temporary files left so far" if self.left_behind else ""
        return f"exact: {books.reports:,} reports, {letters:,} refused so far, {windows:,} windows{leftovers}"

    def until_first_pane(self) -> None:
        self._until("the first pane", lambda: [] if self.results.tallies() else ["no pane was written"])

    def until_whole(self, healed_at: float) -> None:
        """In a pause of the sender: tallies exact, table the same, due dead letters there, every part back.

        `healed_at` is the time of day since when nothing is wrong.
        """
        self.sender.pause()
        try:
            self.sender.flush(FLUSH_SECONDS)
            books, due = self.ledger.books(), self.ledger.letters_due(now_ms())
            self._until("exact tallies, dead letters and table", lambda: self._differences(books, due, books.letters))
            self._count_left_behind(healed_at)
        finally:
            self.sender.resume()

    def until_the_last_letter(self) -> None:
        """Waits for every letter that must come: the minutes of all messages are over."""
        self.sender.pause()
        self.sender.flush(FLUSH_SECONDS)
        books = self.ledger.books()
        self._until(
            "exact tallies and all dead letters", lambda: self._differences(books, books.letters, books.letters)
        )

    def _count_left_behind(self, healed_at: float) -> None:
        hidden = self.results.hidden_since_before(healed_at)
        new = set(hidden) - self.left_behind
        self.left_behind |= new
        if len(new) > MOST_LEFT_BEHIND:
            raise LostError([f"{len(new)} temporary files were left behind, such as {min(new)}"])

    def _hurt_and_heal(self, fault: Fault) -> None:
        """In the order of the schedule. Every injury is healed, even if something goes wrong on the way."""
        with ExitStack() as stack:
            start = time.monotonic()
            injuries = sorted(fault.injuries, key=lambda injury: injury.begins)
            wounds: list[tuple[float, _Once]] = []
            for moment in sorted({time for injury in injuries for time in (injury.begins, injury.ends)}):
                time.sleep(max(0.0, start + moment - time.monotonic()))
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
        books = self.ledger.books()
        self._until("the stream to catch up", lambda: verdict.find_undercounted(self.results.tallies(), books.tallies))

    def _differences(self, books: Books, due: Counter[str], at_most: Counter[str]) -> list[str]:
        tallies = self.results.tallies()
        return [
            *verdict.find_undercounted(tallies, books.tallies),
            *verdict.find_wrong_letters(self.results.letters(), due, at_most),
            *verdict.find_wrong_rows(self.site.rows(), self.results.snapshots()),
            *self.site.problems(),
        ]

    def _until(self, description: str, differences: Callable[[], Sequence[str]]) -> None:
        """Waits until there are no differences. More than was sent, or a broken file, ends the wait at once."""
        latest: list[str] = []
        rest_seconds = [0.5]

        def none_left() -> bool:
            time.sleep(rest_seconds[0])
            self.sender.check()
            self._revive()
            start = time.monotonic()
            self.results.refresh()
            # Reading takes a core, which the engine has better use for.
            rest_seconds[0] = max(0.5, time.monotonic() - start)
            letters = verdict.find_wrong_letters(self.results.letters(), Counter(), self.ledger.books().letters)
            if violations := [*self.results.problems, *letters]:
                raise LostError(violations)
            try:
                latest[:] = differences()
            except psycopg.Error as error:
                latest[:] = [f"table: {error}"]
            return not latest

        try:
            eventually(description, none_left, LIMIT_SECONDS)
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
