"""`hushgram` with a command that ends in kill -9 around a commit to Iceberg: as a script, `before 2 export …`."""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from typing import Any

from pyiceberg.table import Table

from hushgram.pipelines.cli import command


def kill_at(where: str, number: int) -> None:
    """The process, before or after this commit of its own."""
    commit, numbers = Table._do_commit, count(1)

    def commit_or_die(self: Table, *arguments: Any, **named: Any) -> None:
        is_it = next(numbers) == number
        if is_it and where == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        commit(self, *arguments, **named)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)

    Table._do_commit = commit_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    kill_at(sys.argv[1], int(sys.argv[2]))
    sys.exit(command.main(sys.argv[3:]))
