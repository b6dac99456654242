"""Rows as tables that a terminal and a Markdown page show alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.sizing.costs import Costs
from benchmarks.sizing.load import Load
from benchmarks.sizing.model import Limit, SizingRow, devices_at
from benchmarks.sizing.sizes import Sizes
from benchmarks.sizing.spread import PARTITIONS_PER_SLOT, Spread

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""Its title, the names of its columns, and its lines."""


def amount(value: float) -> str:
    """Three digits, or all of a large number.

    >>> amount(11_574.07), amount(23.148), amount(0.02), amount(0.0000123), amount(0)
    ('11,574', '23.1', '0.02', '< 0.001', '0')
    """
    if 0 < value < 0.001:
        return "< 0.001"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def octets(value: float) -> str:
    """Bytes in the unit that suits them.

    >>> octets(0), octets(46.97), octets(20_040_000_000)
    ('0', '47 B', '20 GB')
    """
    if not value:
        return "0"
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} B"


def devices(number: float) -> str:
    """
    >>> devices(10**8), devices(2_500_000)
    ('10⁸', '2,500,000')
    """
    digits = str(round(number))
    if digits.rstrip("0") == "1" and len(digits) > 4:
        return "10" + str(len(digits) - 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{round(number):,}"


LINES: tuple[tuple[str, Callable[[SizingRow], str]], ...] = (
    ("reports a day", lambda row: amount(row.reports_a_day)),
    ("messages a day", lambda row: amount(row.messages_a_day)),
    ("messages/s, busiest hour", lambda row: amount(row.messages_a_second)),
    ("bytes of a message", lambda row: f"{row.message_bytes:,.1f}"),
    ("bytes of its record in Kafka", lambda row: f"{row.record_bytes:,.1f}"),
    ("in, busiest hour", lambda row: f"{octets(row.bytes_a_second)}/s"),
    ("kept a day, one copy", lambda row: octets(row.kept_a_day)),
    ("cores: read, check, tally", lambda row: amount(row.source_cores)),
    ("cores: ids", lambda row: amount(row.ids_cores)),
    ("state of ids", lambda row: octets(row.ids_state)),
    ("of it a shard's, written anew every eighth of max_age", lambda row: octets(row.shard_state)),
    ("memory of ids in workers", lambda row: octets(row.ids_memory)),
    ("shuffled elements/s", lambda row: amount(row.shuffled_elements)),
    ("shuffled", lambda row: f"{octets(row.shuffled_bytes)}/s"),
    ("cores: merge, write", lambda row: amount(row.merge_cores)),
    ("bytes of a window's tally, all groups", lambda row: f"{row.state_a_key:,.0f}"),
    ("tallies kept at once", lambda row: amount(row.keys_alive)),
    ("state of tallies", lambda row: octets(row.tallies_state)),
    ("state of partials that wait for a pane", lambda row: octets(row.waiting_state)),
    ("panes a day", lambda row: amount(row.panes_a_day)),
    ("of these late", lambda row: f"{100 * row.late_share_of_panes:.0f} %"),
    ("panes a day with `late_growth: 0`", lambda row: amount(row.panes_without_growth)),
    ("of those late", lambda row: f"{100 * row.late_share_without_growth:.0f} %"),
    ("estimates/s", lambda row: amount(row.estimates_a_second)),
    ("cores: estimates, each alone", lambda row: amount(row.estimate_cores_alone)),
    ("cores: estimates, together", lambda row: amount(row.estimate_cores_together)),
    ("files a day, if each pane had its own", lambda row: amount(2 * row.panes_without_growth)),
    ("files of a day", lambda row: amount(row.files_a_day)),
    ("commits a day to Iceberg, at most", lambda row: amount(row.commits_a_day)),
    ("written a day, as Avro", lambda row: octets(row.written_a_day)),
    ("cores in all, estimates alone", lambda row: amount(row.cores)),
)


def column(load: Load) -> str:
    return f"{devices(load.devices)} devices, {'single' if load.batch == 1 else f'{load.batch:,} in a message'}"


def rows_table(loads: Sequence[Load], rows: Sequence[SizingRow]) -> Table:
    lines = [[label, *(show(row) for row in rows)] for label, show in LINES]
    return "What a day costs", ["", *map(column, loads)], lines


def costs_table(loads: Sequence[Load], costs: Sequence[Costs]) -> Table:
    def micro(seconds: float) -> str:
        return amount(1e6 * seconds)

    entries: list[tuple[str, Callable[[Costs, Load], str]]] = [
        ("a source's call that finds nothing", lambda cost, _: micro(cost.call)),
        ("the same by the clock", lambda cost, _: micro(cost.held)),
        ("a message: read, decoded, checked, tallied", lambda cost, _: micro(cost.message)),
        ("the same, for each report", lambda cost, load: micro(cost.message / load.batch)),
        ("ids of a call in one shard: looked up, kept, tallied", lambda cost, _: micro(cost.piece)),
        ("a partial tally merged", lambda cost, _: micro(cost.merge)),
        ("a pane added to the whole, and written", lambda cost, _: micro(cost.pane)),
        ("a window estimated, alone", lambda cost, _: micro(cost.estimate_alone)),
        ("a window estimated, together with others", lambda cost, _: micro(cost.estimate_together)),
    ]
    lines = [[label, *(show(cost, load) for cost, load in zip(costs, loads, strict=True))] for label, show in entries]
    for index, (name, _, _) in enumerate(costs[0].pane_files):
        file_sizes = [octets(sum(cost.pane_files[index][1:])) for cost in costs]
        lines.append([f"a pane's two files, {name}", *file_sizes])
    return "Measured here: microseconds of one core, and bytes of files", ["", *map(column, loads)], lines


def bytes_table(loads: Sequence[Load], sizes: Sequence[Sizes]) -> Table:
    entries: list[tuple[str, Callable[[Sizes], str]]] = [
        ("a partial tally, shuffled", lambda size: f"{size.partial:,.0f}"),
        ("ids of a call for one shard, shuffled", lambda size: f"{size.piece:,.0f}"),
        ("what is new in a pane, shuffled", lambda size: f"{size.pane:,.0f}"),
        ("a window's tally kept, all groups", lambda size: f"{size.state_of_all:,}"),
        ("a window's tally kept, one group", lambda size: f"{size.state_of_group:,}"),
        ("the same, however many reports", lambda size: f"{size.state_at_most:,}"),
        ("an id kept", lambda size: f"{size.id_kept:.1f}"),
        ("an id in a worker's memory", lambda size: f"{size.id_in_memory:.0f}"),
    ]
    lines = [[label, *(show(size) for size in sizes)] for label, show in entries]
    return "Bytes, as the encoders make them", ["", *map(column, loads)], lines


def limits_table(load: Load, limits: Sequence[Limit]) -> Table:
    lines = []
    for limit in limits:
        devices_reached = devices_at(load, limit)
        most, asked = (
            octets(value) if limit.unit.startswith("bytes") else f"{amount(value)} {limit.unit}"
            for value in (limit.most, limit.asked)
        )
        lines.append(
            [
                limit.what,
                most,
                f"{asked} ({amount(100 * limit.used)} %)",
                "" if devices_reached is None else f"{devices_reached:.1e}".replace("e+", "e"),
                limit.then,
            ]
        )
    columns = ["limit", "at most", f"asked by {column(load)}", "reached at devices a day", "then"]
    return "Where one of something is the limit", columns, lines


def estimates_table(interval: float, reports: int, seconds: Sequence[tuple[int, str, float]]) -> Table:
    lines = [[f"{buckets:,}", name, f"{cost:.3g}", amount(interval / cost)] for buckets, name, cost in seconds]
    columns = ["buckets", "estimator", "seconds", f"panes that one worker keeps up with, in each {interval:g} s"]
    return f"One estimate, of a window of {reports:,} reports, alone", columns, lines


def spread_table(spreads: Sequence[Sequence[Spread]]) -> Table:
    lines = [
        [
            f"{row[0].slots}",
            *(
                f"{result.busiest:.1f} of {result.keys}: {result.excess:.2f}× (none: {100 * result.idle:.0f} %)"
                for result in row
            ),
        ]
        for row in spreads
    ]
    columns = ["slots", *(f"{times}× as many partitions" for times in PARTITIONS_PER_SLOT)]
    return (
        "Partitions of the busiest slot: expected, over an even share, and the chance that a slot has none",
        columns,
        lines,
    )


def format_table(table: Table) -> str:
    """A heading, and lines of equal width."""
    title, columns, lines = table
    widths = [max(len(line[index]) for line in [columns, *lines]) for index in range(len(columns))]

    def format_line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    ruler = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([f"{title}:", "", format_line(columns), ruler, *map(format_line, lines), ""])
