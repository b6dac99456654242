"""`python -m devtools.busy [--processes N] [--times N] COMMAND …`: a command, beside processes that keep cores busy.

For tests that must pass on a machine with other work on it: the first of several runs that fails counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import sys
import time


def spin() -> None:
    """Work without end; a daemon process ends with its parent."""
    while True:
        pass


def main(argv: list[str] | None = None) -> int:
    """The exit code of the first run that fails, else 0.

    >>> main(["--processes=1", "--times=2", sys.executable, "-c", "pass"])  # doctest: +ELLIPSIS
    run 1 of 2 ended with 0 ...
    run 2 of 2 ended with 0 ...
    0
    >>> main(["--processes=0", "--times=9", sys.executable, "-c", "raise SystemExit(3)"])  # doctest: +ELLIPSIS
    run 1 of 9 ended with 3 ...
    3
    """
    parser = argparse.ArgumentParser(prog="python -m devtools.busy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=2, help="how many keep a core busy (default: 2)")
    parser.add_argument("--times", type=int, default=3, help="how often the command runs (default: 3)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    spinners = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.processes)]
    for process in spinners:
        process.start()
    try:
        for number in range(1, options.times + 1):
            start = time.monotonic()
            code = subprocess.run(options.command).returncode
            minutes = (time.monotonic() - start) / 60
            print(f"run {number} of {options.times} ended with {code} after {minutes:.1f} min", flush=True)
            if code:
                return code
    finally:
        for process in spinners:
            process.kill()
            process.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
