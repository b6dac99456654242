"""Tables in the terminal: plain text when piped, whole numbers always, and no wider than they need to be."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Sequence

NUMBER = re.compile(r"(± |about )?[-+]?[0-9][0-9.,e+-]*( %)?")
GAP = 2
UNLIMITED = 10_000
"""A width that no table reaches: a cell is never cut or wrapped."""


def table_lines(heading: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 2) -> list[str]:
    """The heading, if any of it is not empty, and a line for each row; columns of numbers stand to the right.

    >>> for line in table_lines(["shape", "reports"], [["uniform", "90,000"], ["beta(5,2)", "700"]]):
    ...     print(line)
      shape      reports
      uniform     90,000
      beta(5,2)      700
    """
    # Only here: commands answer to signals before anything slow is loaded.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    with_heading = any(heading)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_header=with_heading, header_style="bold")
    for column, title in enumerate(heading):
        cells = [row[column] for row in rows if row[column]]
        numeric = bool(cells) and all(map(NUMBER.fullmatch, cells))
        table.add_column(Text(title), justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    text = io.StringIO()
    terminal = is_terminal()
    Console(file=text, width=UNLIMITED, force_terminal=terminal, legacy_windows=False).print(table)
    return [" " * indent + line.rstrip() for line in text.getvalue().splitlines()]


def table_width(heading: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 2) -> int:
    """The columns of the terminal that a table takes.

    >>> table_width(["shape", "reports"], [["uniform", "90,000"], ["beta(5,2)", "700"]])
    20
    """
    from rich.cells import cell_len

    columns = zip(heading, *rows, strict=True)
    return indent + sum(max(map(cell_len, column)) + GAP for column in columns) - GAP


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def terminal_width() -> int | None:
    """The columns of the terminal that output goes to; None if it goes elsewhere."""
    return shutil.get_terminal_size().columns if is_terminal() else None
