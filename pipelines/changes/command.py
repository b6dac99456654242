"""`hushgram changes`: lists the windows whose distribution differs from those before them, or from a week before."""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Sequence

from hushgram.changes import FALSE_ALARM_RATE, Against, find_changes
from hushgram.pipelines.changes.definitions import Definitions
from hushgram.pipelines.changes.follow import FOLLOW_SECONDS, Follower
from hushgram.pipelines.changes.metrics import ChangeGauges
from hushgram.pipelines.changes.text import Summary, summary_json, summary_lines, verdict_line
from hushgram.pipelines.changes.verdicts import Verdict, timed_tallies
from hushgram.pipelines.cli.console import UsageError, collections_in, command_parser, parse_share, say
from hushgram.pipelines.cli.outputs import writing
from hushgram.pipelines.cli.prometheus_file import prometheus_file
from hushgram.pipelines.formatting import share
from hushgram.pipelines.results import read_results
from hushgram.schemas.records import Histogram
from hushgram.transforms.filesystem import write_atomically

EXAMPLE = "hushgram changes results --exit-code; or, as a stream writes them: hushgram changes results --follow"
AGAINST: dict[str, tuple[Against, ...]] = {
    "preceding": ("preceding", "changed"),
    "week": ("week_before",),
    "both": ("preceding", "changed", "week_before"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="RESULTS", help="a folder of results")
    parser.add_argument(
        "--collections",
        metavar="FILE",
        help="the YAML file of collections (default: what snapshots tell, if mechanism and ε are usual ones)",
    )
    parser.add_argument(
        "--against",
        choices=AGAINST,
        default="both",
        help="compare a window with those before it, with that of a week before, or with both (default: both)",
    )
    parser.add_argument(
        "--false-alarms",
        default=share(FALSE_ALARM_RATE).replace(" ", ""),
        metavar="SHARE",
        help="the most collections that may ever have a false alarm where nothing changes (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; with --follow, a line for each change")
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with 1 if a change was found; with --follow, at the first one"
    )
    parser.add_argument("--follow", action="store_true", help="print changes as `hushgram stream` writes results")
    parser.add_argument(
        "--prometheus", metavar="FILE.prom", help="a file of gauges for Prometheus' node exporter, to write, too"
    )


def run(argv: Sequence[str]) -> int:
    parser = command_parser("changes", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    rate = parse_share("--false-alarms", options.false_alarms)
    if not 0 < rate < 1:
        raise UsageError(f"--false-alarms: got {options.false_alarms!r}, allowed: more than 0 and less than 100%")
    file = options.prometheus and prometheus_file("--prometheus", options.prometheus, options.prometheus, "FILE.prom")
    defined = collections_in(options.collections) if options.collections else None
    against = AGAINST[options.against]
    definitions = Definitions(options.directory, defined)
    if options.follow:
        follower = Follower(definitions, against, rate)
        return follow(follower, file, options.json, options.exit_code)
    summaries = summarise(definitions, against, rate)
    if options.json:
        say(json.dumps({"collections": [summary_json(summary) for summary in summaries]}, ensure_ascii=False))
    else:
        for index, summary in enumerate(summaries):
            for line in ("",) * (index > 0) + tuple(summary_lines(summary)):
                say(line)
    if file:
        gauges = ChangeGauges()
        for summary in summaries:
            gauges.show(summary.collection.name, summary.changes)
        write_gauges(gauges, file)
    return int(options.exit_code and any(summary.changes.found for summary in summaries))


def follow(follower: Follower, file: str | None, as_json: bool, until_first: bool) -> int:
    """Until interrupted, or until the first change."""
    gauges = ChangeGauges()
    while True:
        found = list[Verdict]()
        news = follower.news()
        for collection, changes in news:
            gauges.show(collection.name, changes)
            found += [Verdict(collection, change) for change in changes.found]
        for verdict in found:
            say(json.dumps(verdict.to_json(), ensure_ascii=False) if as_json else verdict_line(verdict))
        if file and news:
            write_gauges(gauges, file)
        if found and until_first:
            return 1
        time.sleep(FOLLOW_SECONDS)


def write_gauges(gauges: ChangeGauges, file: str) -> None:
    with writing("--prometheus", file):
        write_atomically(file, gauges.exposition().encode())


def summarise(definitions: Definitions, against: Sequence[Against], rate: float) -> list[Summary]:
    """What was found in each collection of a folder of results."""
    histograms: dict[str, list[Histogram]] = defaultdict(list)
    for histogram in read_results(definitions.directory, "histograms", Histogram.from_avro):
        histograms[histogram.key.collection].append(histogram)
    summaries = []
    for name, own in histograms.items():
        collection = definitions.find(name, own)
        if collection is None:
            raise UsageError(f"{definitions.directory}: no snapshots of {name!r} there; give --collections FILE")
        windows = timed_tallies(own)
        changes = find_changes(collection, windows, against=against, false_alarm_rate=rate)
        summaries.append(Summary(collection, changes, len(own) - len(windows), rate))
    return summaries
