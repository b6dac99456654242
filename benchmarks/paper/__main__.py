"""`python -m benchmarks.paper [--full]`: measure, draw, judge, write `docs/paper.md`."""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks.paper.experiments import FULL, QUICK
from benchmarks.paper.fingerprint import ROOT
from benchmarks.paper.reproduce import reproduce
from benchmarks.paper.run import end_when_asked


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description="The paper's experiments.")
    parser.add_argument("--full", action="store_true", help="the paper's 100 repetitions: hours")
    options, start = parser.parse_args(), time.monotonic()
    end_when_asked()
    path = reproduce(FULL if options.full else QUICK, ROOT / "build" / "paper", ROOT / "docs")
    print(f"{path.relative_to(ROOT)} and its figures, in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
