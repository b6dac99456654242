"""hushgram on a device: one number in, one privatised report out. The standard library alone, one file, Python 3.9+.

    device = Device(load("manifest.json"), Store("hushgram.db"))
    device.submit(37.5, group="DE")                     # perturbed, counted against the budget, and queued
    device.store.send("https://example.org/v1/reports")  # now or later; what fails is sent again, under the same id

This is the reference of docs/clients.md, which says what a client does and in which order. With `--conform` it answers
`hushgram conform`.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any, TextIO, TypeVar

FORMAT = "hushgram-manifest/1"
SCHEMAS = {"Report": "8d51ac06d359ba88", "ReportBatch": "f5c4f5368c715f19"}
MECHANISMS = (
    *("square_wave", "square_wave_continuous", "general_wave", "randomized_response", "local_hashing"),
    *("seeded_hashing", "hierarchy", "haar", "stochastic_rounding", "piecewise"),
)
LARGEST_MANIFEST = 1 << 23
SEEDS = 1 << 32
MOST, MOST_COUNT = (1 << 63) - 1, (1 << 53) - 1
MOST_CHANNELS, MOST_POINTS = 64, 65_535
LARGEST_BUDGET, LONGEST_PERIOD_MS, MOST_SLOTS = 10**15, 3650 * 86_400_000, 10_000

FINGERPRINT, NATURAL, REAL = "[0-9a-f]{16}", "[1-9][0-9]{0,18}", r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?"

Json = Any
"""Whatever was sent: it is checked as it is read."""
Item = TypeVar("Item")
Below = Callable[[int], int]
"""Draws a uniform integer from 0 to its argument - 1."""
Integers = dict[str, int]
Account = tuple[int, int, int]
"""Start and end of a period, and what was spent in it."""


class RefusedError(ValueError):
    """A manifest, value or group that must not be used. Nothing was drawn, spent or stored."""


class OverBudgetError(RefusedError):
    """No report now: the budget of the period is spent, it is not this device's slot, or the clock was set back."""


# The manifest ---------------------------------------------------------------------------------------------------------


def load(source: str | os.PathLike[str] | dict[str, Json], most_epsilon: float | None = None) -> Manifest:
    """A checked manifest, from a path or a dict; one whose reports cost more than `most_epsilon` is refused."""
    if not isinstance(source, dict):
        with open(os.fspath(source), "rb") as file:
            content = file.read(LARGEST_MANIFEST + 1)
        need(len(content) <= LARGEST_MANIFEST, "a manifest of more than 8 MiB")
        try:
            source = parse_json(content.decode())
        except (ValueError, RecursionError) as error:
            raise RefusedError(f"a manifest that is not JSON: {error}") from None
    try:
        manifest = Manifest(source)
    except RefusedError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RefusedError(f"a manifest without what it needs: {type(error).__name__} {error}") from None
    need(most_epsilon is None or manifest.epsilon <= most_epsilon, "a manifest of a larger ε than the app allows")
    return manifest


class Manifest:
    """What a device needs of a collection. The law is checked from its integers: whatever passes keeps its ε."""

    def __init__(self, source: Json) -> None:
        need(source["format"] == FORMAT, f"manifest: format is {source['format']!r:.60}, known: {FORMAT}")
        need(source["mechanism"] in MECHANISMS, f"manifest: unknown mechanism {source['mechanism']!r:.60}")
        need(source["schemas"] == SCHEMAS, "manifest: schemas that this client does not write")
        self.collection, self.groups = label(source["collection"]), items(source["groups"], label, 10_000)
        need(len(set(self.groups)) == len(self.groups), "manifest: a group is listed twice")
        need(matches(FINGERPRINT, source["revision"]), "manifest: a revision of 16 hexadecimal digits")
        self.revision = bytes.fromhex(source["revision"])
        self.slice_ms = count(source["slice_ms"], 1)
        self.slice_first_ms, self.max_age_ms = count(source["slice_first_ms"]), count(source["max_age_ms"])
        self._read_device(source["device"])
        self._read_law(source["law"])
        self._read_places(source["domain"], source["locate"])

    def _read_device(self, device: Json) -> None:
        only(device, "epsilon cost budget slots total")
        self.epsilon = real(device["epsilon"])
        need(0 < self.epsilon <= 20, "manifest: ε is not from 0 to 20")
        self.cost, self.slots = count(device["cost"], 1, LARGEST_BUDGET), count(device["slots"], 1, MOST_SLOTS)
        need(self.cost >= self.epsilon * 1e9 * (1 - 1e-9), "manifest: a report costs less than its ε")
        # (name of the account, amount, period): of this collection, and of all together
        self.budgets: list[tuple[str, int, int]] = []
        for account, budget in ((self.collection, device["budget"]), ("", device["total"])):
            if budget is not None:
                only(budget, "amount every_ms")
                amount = count(budget["amount"], 0, LARGEST_BUDGET)
                self.budgets.append((account, amount, count(budget["every_ms"], 1, LONGEST_PERIOD_MS)))
        need(self.slots == 1 or device["budget"] is not None, "manifest: slots without a budget")

    def _read_law(self, law: Json) -> None:
        only(law, "positions cells shares channels")
        self.positions, self.cells = natural(law["positions"]), natural(law["cells"])
        need(2 <= self.positions <= 1 << 26, "law: 2 to 2^26 positions")
        end = 0

        def read(source: Json) -> tuple[str, Integers]:
            nonlocal end
            integers, outcomes = read_channel(source, end, self.positions, self.epsilon)
            end += outcomes
            return source["kind"], integers

        self.channels = items(law["channels"], read, MOST_CHANNELS)
        need(2 <= end == self.cells <= 1 << 53, "law: cells are not those of the channels")
        self.shares = None if law["shares"] is None else items(law["shares"], natural, MOST_CHANNELS)
        shares = [1] if self.shares is None else self.shares
        need(len(shares) == len(self.channels) and sum(shares) <= MOST, "law: as many shares as channels")

    def _read_places(self, domain: Json, locate: Json) -> None:
        only(domain, "scale low high integer")
        need(domain["scale"] in ("linear", "log"), "domain: unknown scale")
        truth(domain["integer"])
        self.low, self.high = real(domain["low"]), real(domain["high"])
        need(self.low < self.high, "domain: low is not below high")
        method = locate["method"]
        need(method in LOCATES, "locate: unknown method")
        only(locate, f"method {LOCATES[method]}")
        self.position: Callable[[Any], int]
        if method == "edges":
            self.points = points(locate["edges"], 1)
            need(len(self.points) == self.positions - 1, "locate: edges and positions differ")
            self.position = self._by_edges
            return
        self.steps, self.half_even = count(locate["steps"], 1), locate["round"] == "half_even"
        need(self.half_even or (method, locate["round"]) == ("scale", "down"), "locate: round")
        need(self.steps + self.half_even == self.positions, "locate: steps and positions differ")
        if method == "knots":
            self.points = points(locate["knots"], 2)
            self.position = self._by_knots
            return
        self.whole, self.start, self.length = truth(locate["whole"]), real(locate["start"]), real(locate["length"])
        need(self.length > 0, "locate: length")
        self.position = self._by_scale

    # A value becomes a position: double arithmetic, in this order ---------------------------------------------------

    def clip(self, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        need(math.isfinite(number), "a value that is not a finite number")
        return min(max(number, self.low), self.high)

    def _by_scale(self, value: Any) -> int:
        value = self.clip(value)
        if self.whole:
            value = float(round(value))  # half to even
        return self._round((value - self.start) / self.length * self.steps)

    def _by_edges(self, value: Any) -> int:
        return bisect_right(self.points, self.clip(value))  # an edge belongs to the bucket above it

    def _by_knots(self, value: Any) -> int:
        value = self.clip(value)
        part = min(max(bisect_right(self.points, value) - 1, 0), len(self.points) - 2)
        share = (value - self.points[part]) / (self.points[part + 1] - self.points[part])
        return self._round((part + share) / (len(self.points) - 1) * self.steps)

    def _round(self, place: float) -> int:
        place = min(max(place, 0.0), self.positions - 1.0)  # first: infinity is no integer
        return round(place) if self.half_even else math.floor(place)  # Python rounds half to even

    # A position becomes a cell: integers, drawn in this order -------------------------------------------------------

    def cell(self, position: int, below: Below = secrets.randbelow) -> int:
        """The cell to report for a position. `below(n)` draws a uniform integer from 0 to n - 1."""
        index = 0
        if self.shares is not None:
            r = below(sum(self.shares))
            while r >= self.shares[index]:
                r -= self.shares[index]
                index += 1
        kind, integers = self.channels[index]
        return integers["offset"] + DRAWS[kind](integers, position // integers["divisor"], below)

    def cut(self, milliseconds: int) -> int:
        """The beginning of the slice that a time lies in: a report says no more of its time than that."""
        return (milliseconds - self.slice_first_ms) // self.slice_ms * self.slice_ms + self.slice_first_ms

    def check_group(self, group: str | None) -> None:
        need(group is None or group in self.groups, f"group: got {group!r:.60}, which the manifest does not list")


def read_channel(source: Json, offset: int, positions: int, epsilon: float) -> tuple[Integers, int]:
    """The checked integers of a channel that begins at a cell, and the number of its cells."""
    kind = source["kind"]
    need(kind in EXTRAS, f"law: unknown kind of channel {kind!r:.60}")
    names = f"divisor P Q width others total {EXTRAS[kind]}"
    only(source, f"kind offset {names}")
    need(source["offset"] == str(offset), "law: channels do not follow one another")
    c = {"offset": offset, **{name: natural(source[name]) for name in names.split()}}
    need(c["P"] >= c["Q"], "law: P is less than Q")
    need(c["P"] << 128 <= c["Q"] * exp_from_below(epsilon), "law: P/Q is larger than e^ε")
    need(c["total"] == c["width"] * c["P"] + c["others"] * c["Q"] <= MOST, "law: total is not the sum of the weights")
    most = (positions - 1) // c["divisor"]
    if kind == "block":
        fits, outcomes = most <= c["others"], c["width"] + c["others"]
    elif kind == "wave":
        fits = most + c["ramp"] - 1 <= c["others"] and (c["width"] + c["others"]) % c["step"] == 0
        outcomes = (c["width"] + c["others"]) // c["step"]
    elif kind == "coin":
        fits, outcomes = c["width"] == c["others"] == 1 and most == c["steps"], 2
    elif kind == "hadamard":
        rows = c["rows"]
        fits = c["width"] == c["others"] == 1 and rows & (rows - 1) == 0 and most // 2 < rows
        outcomes = 2 * rows
    else:
        fits = c["width"] == 1 and c["symbols"] == c["others"] + 1
        if kind == "linear_hash":
            fits = (
                fits and c["digits"] <= 18 and c["functions"] == c["symbols"] ** c["digits"] and most < c["functions"]
            )
        outcomes = c["symbols"] * (c["functions"] if kind == "linear_hash" else SEEDS)
    need(kind in ("block", "wave", "coin") or most < 1 << 16, "law: too many values to hash")
    need(fits, f"law: the integers of a {kind} do not fit together")
    return c, outcomes


def exp_from_below(epsilon: float) -> int:
    """⌊e^ε·2^128⌋ or a little less: the exponential series in integers, each term rounded down. ε = m / 2^k exactly."""
    numerator, denominator = epsilon.as_integer_ratio()
    term, total, i = 1 << 128, 0, 1
    while term:
        total += term
        term, i = term * numerator // (denominator * i), i + 1
    return total


# Drawing --------------------------------------------------------------------------------------------------------------


def draw_favoured(c: Integers, start: int, below: Below) -> int:
    """One of width + others outcomes: those from `start` on, `width` of them, have the weight P, the others Q."""
    r, favoured = below(c["total"]), c["width"] * c["P"]
    if r < favoured:
        return start + r // c["P"]
    other = (r - favoured) // c["Q"]
    return other if other < start else other + c["width"]


def draw_wave(c: Integers, position: int, below: Below) -> int:
    r, excess = below(c["total"]), c["P"] - c["Q"]
    if r < c["width"] * excess:
        return (position + r // excess + below(c["ramp"])) // c["step"]
    return (r - c["width"] * excess) // c["Q"] // c["step"]


def draw_coin(c: Integers, position: int, below: Below) -> int:
    return draw_favoured(c, 1 if below(c["steps"]) < position else 0, below)


def draw_hadamard(c: Integers, half: int, below: Below) -> int:
    row = below(c["rows"])
    sign = 1 - half % 2 ^ bin(row & half // 2).count("1") % 2
    return 2 * row + draw_favoured(c, sign, below)


def draw_linear_hash(c: Integers, value: int, below: Below) -> int:
    function = below(c["functions"])
    symbol, a, v = 0, function, value
    for _ in range(c["digits"]):
        symbol += a % c["symbols"] * (v % c["symbols"])
        a, v = a // c["symbols"], v // c["symbols"]
    return function * c["symbols"] + draw_favoured(c, symbol % c["symbols"], below)


def draw_xxh32(c: Integers, value: int, below: Below) -> int:
    seed = below(SEEDS)
    return seed * c["symbols"] + draw_favoured(c, xxh32(str(value).encode(), seed) % c["symbols"], below)


def xxh32(content: bytes, seed: int) -> int:
    """xxHash of 32 bits, by its steps for short inputs: of fewer than 16 bytes it is xxHash itself."""
    mask, acc, rest = 0xFFFFFFFF, (seed + 374761393 + len(content)) & 0xFFFFFFFF, content
    while rest:
        four = len(rest) >= 4
        word, turn, into, factor = (
            (int.from_bytes(rest[:4], "little"), 17, 3266489917, 668265263)
            if four
            else (rest[0], 11, 374761393, 2654435761)
        )
        acc = (acc + word * into) & mask
        acc = ((acc << turn | acc >> (32 - turn)) * factor) & mask
        rest = rest[4 if four else 1 :]
    acc = (acc ^ acc >> 15) * 2246822519 & mask
    acc = (acc ^ acc >> 13) * 3266489917 & mask
    return acc ^ acc >> 16


LOCATES = {"scale": "whole start length steps round", "edges": "edges", "knots": "knots steps round"}
EXTRAS = {
    "block": "",
    "wave": "ramp step",
    "coin": "steps",
    "hadamard": "rows",
    "linear_hash": "symbols digits functions",
    "xxh32": "symbols",
}
DRAWS: dict[str, Callable[[Integers, int, Below], int]] = {
    "block": draw_favoured,
    "wave": draw_wave,
    "coin": draw_coin,
    "hadamard": draw_hadamard,
    "linear_hash": draw_linear_hash,
    "xxh32": draw_xxh32,
}


# Messages: Avro's single-object encoding ------------------------------------------------------------------------------


def encode_report(manifest: Manifest, cell: int, group: str | None, milliseconds: int, upload_id: bytes) -> bytes:
    """One report as a message."""
    return _message("Report", manifest, long(cell), group, milliseconds, upload_id)


def encode_batch(
    manifest: Manifest, cells: Sequence[int], group: str | None, milliseconds: int, upload_id: bytes
) -> bytes:
    """Reports of one group and time as one message."""
    width = next(width for width in (1, 2, 4, 8) if manifest.cells <= 1 << 8 * width)
    packed = b"".join(cell.to_bytes(width, "little") for cell in cells)
    return _message("ReportBatch", manifest, long(len(packed)) + packed, group, milliseconds, upload_id)


def _message(
    schema: str, manifest: Manifest, cells: bytes, group: str | None, milliseconds: int, upload_id: bytes
) -> bytes:
    parts = [b"\xc3\x01", bytes.fromhex(SCHEMAS[schema]), text(manifest.collection), manifest.revision, cells]
    parts += [long(manifest.cut(milliseconds)), b"\x00" if group is None else b"\x02" + text(group)]
    return b"".join([*parts, b"\x02", upload_id])


def long(number: int) -> bytes:
    """Avro's long: zigzag, then seven bits a byte, the lowest first."""
    rest, encoded = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def text(string: str) -> bytes:
    encoded = string.encode()
    return long(len(encoded)) + encoded


# The ledger and the queue: written down before anything is sent -------------------------------------------------------


class Store:
    """What a device remembers: what it has spent, its slots, and what it has yet to send. One file of SQLite.

    Any number of processes may share it. What cannot be written has not happened: `sqlite3.Error`, and no report.
    """

    QUEUE_LIMIT = 1000
    LONGEST_WAIT_MS = 86_400_000

    def __init__(self, path: str | os.PathLike[str], clock: Callable[[], int] | None = None) -> None:
        self.clock = clock or (lambda: time.time_ns() // 1_000_000)
        self.database = sqlite3.connect(os.fspath(path), timeout=30, isolation_level=None)
        self.database.execute("PRAGMA synchronous = FULL")
        with self._transaction() as database:
            for table in (
                "account (name TEXT PRIMARY KEY, numbers TEXT, seal INTEGER)",
                "slot (name TEXT PRIMARY KEY, numbers TEXT, seal INTEGER)",
                "queue (number INTEGER PRIMARY KEY AUTOINCREMENT, message BLOB, expires INTEGER, tries INTEGER)",
                "pause (name TEXT PRIMARY KEY, until INTEGER)",
            ):
                database.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, one process at a time."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield self.database
            self.database.execute("COMMIT")
        except BaseException:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
            raise

    def spend(self, manifest: Manifest, reports: int = 1, below: Below = secrets.randbelow) -> None:
        """Takes the cost of the reports from all budgets, or raises `OverBudgetError` and takes nothing."""
        if not manifest.budgets:
            return
        now = self.clock()
        need(now >= 0, "a clock before 1970")
        if manifest.slots > 1:
            every = manifest.budgets[0][2]
            if now % every * manifest.slots // every != self._slot(manifest, below):
                raise OverBudgetError("not now: this device reports in another slot of the period")
        with self._transaction():
            for account, amount, every in manifest.budgets:
                start, until, spent = enter_period(self._kept("account", account), now, every)
                spent += reports * manifest.cost
                if spent > amount:
                    raise OverBudgetError("not now: the budget of this period is spent")
                self._keep("account", account, (start, until, spent))

    def _slot(self, manifest: Manifest, below: Below) -> int:
        """Drawn once for each collection and number of slots, and kept."""
        with self._transaction():
            kept = self._kept("slot", manifest.collection)
            if kept is None or kept[0] != manifest.slots:
                kept = manifest.slots, below(manifest.slots)
                self._keep("slot", manifest.collection, kept)
        return kept[1]

    def _keep(self, table: str, name: str, numbers: Sequence[int]) -> None:
        written = json.dumps(numbers)
        self.database.execute(f"REPLACE INTO {table} VALUES (?, ?, ?)", (name, written, seal(name, written)))

    def _kept(self, table: str, name: str) -> Any:
        """The numbers, or None where there are none yet."""
        row = self.database.execute(f"SELECT numbers, seal FROM {table} WHERE name = ?", (name,)).fetchone()
        if row is not None and row[1] != seal(name, row[0]):
            raise sqlite3.DatabaseError(f"the {table} of {name!r} is not what was written: no report while it is there")
        return None if row is None else json.loads(row[0])

    def has_room(self) -> bool:
        return self.waiting() < self.QUEUE_LIMIT

    def waiting(self) -> int:
        """How many messages are yet to be sent."""
        return int(self.database.execute("SELECT COUNT(*) FROM queue").fetchone()[0])

    def put(self, message: bytes, expires: int) -> None:
        with self._transaction() as database:
            database.execute("INSERT INTO queue (message, expires, tries) VALUES (?, ?, 0)", (message, expires))

    def send(self, url: str, timeout: float = 30.0) -> int:
        """Posts what waits, oldest first, until all is sent or the server asks to wait; the number that it has kept.

        Messages are sent as they were stored, so that one that arrives twice has one id and counts once.
        """
        kept = 0
        while not self._paused():
            row = self.database.execute("SELECT number, message, expires, tries FROM queue ORDER BY number").fetchone()
            if row is None:
                break
            number, message, expires, tries = row
            expired = expires < self.clock()
            status, retry_after = (0, None) if expired else post(url, message, timeout)
            if expired or 200 <= status < 300 or status in (400, 413, 415, 422):  # kept, or will never be
                kept += 200 <= status < 300
                with self._transaction() as database:
                    database.execute("DELETE FROM queue WHERE number = ?", (number,))
            else:
                self._pause(number, tries, retry_after)
        return kept

    def _paused(self) -> bool:
        row = self.database.execute("SELECT until FROM pause").fetchone()
        # A pause that ends in the far future is one from before the clock was set back.
        return row is not None and 0 < row[0] - self.clock() <= self.LONGEST_WAIT_MS

    def _pause(self, number: int, tries: int, retry_after: int | None) -> None:
        wait = retry_after
        if not wait:  # none was asked for: twice as long each time, up to an hour, and not all devices at once
            wait = 1000 * 2 ** min(tries, 12) // 2 + secrets.randbelow(1000 * 2 ** min(tries, 12))
        until = self.clock() + min(wait, self.LONGEST_WAIT_MS)
        with self._transaction() as database:
            database.execute("UPDATE queue SET tries = tries + 1 WHERE number = ?", (number,))
            database.execute("REPLACE INTO pause VALUES ('', ?)", (until,))


def seal(name: str, numbers: str) -> int:
    """SQLite notices damage of its pages, not of what is in them."""
    return xxh32(f"{name} {numbers}".encode(), 0)


def enter_period(account: Account | None, now: int, every: int) -> Account:
    """(start, end, spent) of the period at a time, given those of the last; a clock that was set back is refused."""
    start = now // every * every
    if account is None:
        return start, start + every, 0
    if now < account[0]:
        raise OverBudgetError("not now: the clock was set back to before the last period")
    if now < account[1]:
        return account
    return max(start, account[1]), start + every, 0


def post(url: str, message: bytes, timeout: float) -> tuple[int, int | None]:
    """The status of an upload, 0 if there is none, and for how many milliseconds the server asks to wait."""
    request = urllib.request.Request(url, message, {"Content-Type": "application/vnd.hushgram.report"}, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout) as answer:
            return answer.status, None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, parse_retry_after(error.headers.get("Retry-After"))
    except (OSError, ValueError):  # no network, no name, no TLS, no HTTP
        return 0, None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any) -> None:
        return None


def parse_retry_after(header: str | None) -> int | None:
    """Milliseconds, from a number of seconds or a date; None if there is neither."""
    try:
        if header is None or header.strip().isdigit():
            return None if header is None else int(header.strip()[:9]) * 1000
        return max(0, int((parsedate_to_datetime(header).timestamp() - time.time()) * 1000))
    except (ValueError, TypeError, OverflowError):
        return None


class Device:
    """The reports of one collection from one device. With a budget it needs a store to count in."""

    def __init__(self, manifest: Manifest, store: Store | None = None) -> None:
        need(store is not None or not manifest.budgets, "a manifest with a budget, and no store to count in")
        self.manifest, self.store = manifest, store

    def report(self, value: float, group: str | None = None) -> bytes:
        """One report as a message, to be sent by the app, as often as it takes, but never drawn again."""
        [cell], now, upload_id = self._draw([value], group)
        return encode_report(self.manifest, cell, group, now, upload_id)

    def batch(self, values: Iterable[float], group: str | None = None) -> bytes:
        """A report for each value in one message, at the cost of as many."""
        cells, now, upload_id = self._draw(list(values), group)
        return encode_batch(self.manifest, cells, group, now, upload_id)

    def submit(self, value: float, group: str | None = None) -> None:
        """One report, into the queue of the store."""
        if self.store is None:
            raise RefusedError("a queue needs a store")
        need(self.store.has_room(), "a full queue: send first")
        [cell], now, upload_id = self._draw([value], group)
        message = encode_report(self.manifest, cell, group, now, upload_id)
        self.store.put(message, self.manifest.cut(now) + self.manifest.max_age_ms)

    def _draw(self, values: Sequence[float], group: str | None) -> tuple[list[int], int, bytes]:
        """The cells, the time and an id. What may be refused is refused first; then the budget; then the draw."""
        self.manifest.check_group(group)
        positions = [self.manifest.position(value) for value in values]
        need(bool(positions), "a batch of no values")
        now = self.store.clock() if self.store else time.time_ns() // 1_000_000
        need(now >= 0, "a clock before 1970")
        if self.store:
            self.store.spend(self.manifest, len(positions))
        return [self.manifest.cell(position) for position in positions], now, secrets.token_bytes(16)


# Checks ---------------------------------------------------------------------------------------------------------------


def need(condition: bool, what: str) -> None:
    if not condition:
        raise RefusedError(what)


def parse_json(content: str) -> Json:
    def refuse(name: str) -> None:
        raise RefusedError(f"{name} is no JSON")

    def parse_int(digits: str) -> float:  # Python refuses thousands of digits, and no entry has more than 16
        return int(digits) if len(digits) < 20 else float(digits)

    return json.loads(content, parse_constant=refuse, parse_int=parse_int)


def only(mapping: Json, names: str) -> None:
    need(isinstance(mapping, dict) and set(mapping) == set(names.split()), f"manifest: expected exactly {names}")


def items(value: Json, read: Callable[[Json], Item], most: int, least: int = 0) -> list[Item]:
    need(isinstance(value, list) and least <= len(value) <= most, f"manifest: a list of {least} to {most}")
    return [read(item) for item in value]


def points(value: Json, least: int) -> list[float]:
    """Edges or knots."""
    found = items(value, real, MOST_POINTS, least)
    rising = all(a < b for a, b in zip(found, found[1:]))  # noqa: B905, RUF007 - Python 3.9
    need(rising, "locate: edges that do not rise")
    need(math.isfinite(found[-1] - found[0]), "locate: edges too far apart")
    return found


def matches(pattern: str, value: Json) -> bool:
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None


def label(value: Json) -> str:
    need(isinstance(value, str) and 0 < len(value) <= 128, "manifest: a label of 1 to 128 characters")
    need("\ufffd" not in value, "manifest: a label with U+FFFD, which stands for what was not UTF-8")
    text(value)  # which is no text if it cannot be encoded
    return str(value)


def truth(value: Json) -> bool:
    need(isinstance(value, bool), f"manifest: true or false, got {value!r:.60}")
    return bool(value)


def count(value: Json, least: int = 0, most: int = MOST_COUNT) -> int:
    """A JSON number that is a whole one, and exact in every language; 1.0 is 1."""
    fine = type(value) is int or (type(value) is float and value.is_integer())
    need(fine and least <= value <= most, f"manifest: a whole number, got {value!r:.60}")
    return int(value)


def natural(value: Json) -> int:
    """A whole number from 1 on as decimal text, of at most 63 bits."""
    need(matches(NATURAL, value) and int(value) <= MOST, f"manifest: digits, got {value!r:.60}")
    return int(value)


def real(value: Json) -> float:
    """A finite double as decimal text."""
    need(matches(REAL, value) and len(value) <= 32, f"a number as text, got {value!r:.60}")
    need(math.isfinite(float(value)), f"a finite number, got {value!r:.60}")
    return float(value)


# `hushgram conform` ---------------------------------------------------------------------------------------------------


class Scripted:
    """Draws that are told beforehand: [[limit, answer], …]."""

    def __init__(self, draws: Json) -> None:
        self.rest = [(int(limit), int(answer)) for limit, answer in draws]

    def __call__(self, limit: int) -> int:
        need(bool(self.rest), f"draw below {limit}: the script has ended")
        expected, answer = self.rest.pop(0)
        need(limit == expected, f"draw below {limit}: the script has one below {expected}")
        return answer


def answer(request: Json, state: dict[str, Manifest]) -> dict[str, Any]:
    """The answer to one request of `hushgram conform`; `state` keeps the manifest from request to request."""
    if "manifest" in request:
        state.pop("manifest", None)
        need(isinstance(request["manifest"], dict), "a manifest is an object")
        state["manifest"] = load(request["manifest"])
    need("manifest" in state, "no manifest")
    manifest = state["manifest"]
    if "times" in request:
        return {"granted": grant(manifest, request["slot"], request["times"])}
    if "upload" in request:
        device = Device(manifest, Store(":memory:") if manifest.budgets else None)
        return {"upload": device.report(real(request["value"]), request.get("group")).hex()}
    manifest.check_group(request.get("group"))
    position = manifest.position(real(request["value"]))
    draws = Scripted(request["draws"]) if "draws" in request else None
    cells = [manifest.cell(position, draws or secrets.randbelow) for _ in range(request.get("repeat", 1))]
    need(not draws or not draws.rest, "draws are left over")
    answered: dict[str, Any] = {"cells": cells} if "repeat" in request else {"position": position, "cell": cells[0]}
    if "id" in request:
        common = (request.get("group"), request["time"], bytes.fromhex(request["id"]))
        if "repeat" not in request:
            answered["report"] = encode_report(manifest, cells[0], *common).hex()
        answered["batch"] = encode_batch(manifest, cells, *common).hex()
    return answered


def grant(manifest: Manifest, slot: int, times: Sequence[int]) -> list[bool]:
    """Whether a ledger that begins empty, in the given slot, grants a report at each of the times."""
    now = [0]
    store, granted = Store(":memory:", clock=lambda: now[0]), []
    for now[0] in times:
        try:
            store.spend(manifest, below=lambda limit: slot)
            granted.append(True)
        except OverBudgetError:
            granted.append(False)
    store.close()
    return granted


def conform(requests: TextIO, answers: TextIO) -> None:
    """Answers one JSON object a line with one JSON object a line, until the input ends."""
    state: dict[str, Manifest] = {}
    for line in requests:
        try:
            answered = answer(parse_json(line), state)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as refused:  # or no request at all
            answered = {"refused": f"{type(refused).__name__} {refused}"}
        print(json.dumps(answered), file=answers, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] != ["--conform"]:
        sys.exit("usage: python hushgram_client.py --conform")
    conform(sys.stdin, sys.stdout)
