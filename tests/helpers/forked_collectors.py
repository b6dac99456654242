"""Collectors that start at once. As a script it is the process that they are forks of."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.forks import ForkServer, serve


class Forks(ForkServer):
    """Starts `hushgram` with some arguments, and kills it."""

    def __init__(self) -> None:
        super().__init__(__name__)

    def start(self, *arguments: object, log: Path) -> int:
        """The number of the process; what it prints is appended to the log."""
        return self.fork(log, *map(str, arguments))


def main() -> None:
    import hushgram.pipelines.collect.command  # by the process that is forked, once for all
    from hushgram.pipelines.cli.command import main as hushgram

    serve(lambda *arguments: hushgram(list(arguments)))


if __name__ == "__main__":
    main()
