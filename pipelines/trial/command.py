"""`hushgram try`: takes numbers of your own through simulated devices, the pipeline and the page."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hushgram import Collection, CollectionError
from hushgram._arrays import FloatArray
from hushgram.config import DOMAIN_KEYS
from hushgram.pipelines.cli.console import UsageError, command_parser, complain, say
from hushgram.pipelines.cli.outputs import check_directory, writing
from hushgram.pipelines.formatting import count, number, share, shown
from hushgram.pipelines.simulate.column_files import Column, find_column, read_numbers
from hushgram.pipelines.simulate.devices import fleet_generator, simulate_devices, truth
from hushgram.pipelines.trial.proposal import DEFAULT_MECHANISM, propose

EXAMPLE = "hushgram try data.csv:minutes --unit minutes --epsilon 1"
OUTPUT = "hushgram-try"
MARKER = "made-by-hushgram-try.txt"
"""A folder that holds it was made by this command, which may replace it."""
FEWEST_DEVICES, MOST_DEVICES = 100_000, 1_000_000
MOST_OF_AN_ERROR = 400
"""Limit of the characters that a message repeats of an error of another library."""
START_MS, HOUR_MS = 1_767_225_600_000, 3_600_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("values", metavar="FILE:COLUMN", help="numbers, in a .csv, .tsv, .parquet or .jsonl file")
    parser.add_argument("--epsilon", type=float, default=1.0, metavar="ε", help="the promise of privacy (default: 1)")
    parser.add_argument("--low", type=float, help="the least value of the domain (default: proposed)")
    parser.add_argument("--high", type=float, help="the greatest value of the domain (default: proposed)")
    parser.add_argument("--unit", default="", help="what the numbers are, such as minutes")
    parser.add_argument("--output", default=OUTPUT, metavar="DIR", help=f"where everything goes (default: {OUTPUT})")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("try", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    name, column = read_values(options.values)
    values = column.numbers
    collection = collection_for(name, values, options)
    output = Path(options.output)
    make_folder(output)
    if column.missing:
        say(column.missing_words())
    say(f"{count(values.size, 'value')} from {number(values.min())} to {number(values.max())}")
    say(f"domain: {describe(collection)}")
    outside = int(((values < collection.low) | (values > collection.high)).sum())
    if outside:
        many = f"{count(outside, 'value')}, {share(outside / values.size)}"
        say(f"outside the domain: {many}; each counts as the nearest end")
    devices = simulate(collection, values, output)
    say(f"{devices:,} devices report one value each" + ("" if devices == values.size else ", drawn at random"))
    # Only here: a wrong option is answered before Beam is loaded.
    from hushgram.pipelines import aggregate

    definition, results = str(output / "collections.yaml"), str(output / "results")
    reports = str(output / "reports" / "*.avro")
    code = aggregate.run(["--collections", definition, "--input", reports, "--output", results, "--run", "try"])
    if code == 0:
        show_results(results, str(output / "truth.jsonl"), proposed=options.low is None and options.high is None)
        page = write_page(results, output / "page.html", collection.name)
        say(f"\nThe collection, as in {definition}:\n\n{yaml_of(collection)}")
        if page:
            say(f"The page: {page}")
        say(f"Next: hushgram plan --collections {definition} --reports 100000 predicts the error for other numbers.")
    return code


def read_values(text: str) -> tuple[str, Column]:
    """The name of a collection for the values that `FILE:COLUMN` names, and the values."""
    found = find_column(text)
    if found is None:
        missing = shown(text.rpartition(":")[0] or text)
        raise UsageError(f"{shown(text)}: no such file: {missing}; allowed: FILE:COLUMN, such as data.csv:minutes")
    path, column = found
    try:
        return column or Path(path).stem, read_numbers(path, column or None)
    except Exception as error:  # a foreign file may raise what its reader happens to raise
        raise UsageError(f"{shown(text)}: {' '.join(str(error).split())[:MOST_OF_AN_ERROR]}") from None


def collection_for(name: str, values: FloatArray, options: argparse.Namespace) -> Collection:
    """The proposed collection, or a line that says why there is none."""
    if float(values.min()) == float(values.max()) and (options.low is None or options.high is None):
        raise UsageError(
            f"{options.values}: all values are {number(values[0])}, allowed: at least two different numbers, "
            "or --low and --high"
        )
    if float(np.abs(values).max()) > 1e150:
        raise UsageError(f"{options.values}: got {values[np.abs(values).argmax()]:g}, allowed: at most 1e150")
    proposal = propose(values, options.low, options.high)
    label = shown(name)[:128]
    try:
        return Collection(name=label, epsilon=options.epsilon, unit=options.unit, **proposal.parameters())
    except CollectionError as error:
        message = str(error).removeprefix(f"collection {label!r}: ")
        if options.high is None and options.low is not None and message.startswith("high: "):
            allowed = f"less than {number(proposal.high)}, where the proposed domain ends, or --high beside it"
            raise UsageError(f"--low: got {options.low:,.10g}, allowed: {allowed}") from None
        if options.low is None and options.high is not None and options.high <= proposal.low:
            allowed = f"more than {number(proposal.low)}, where the proposed domain begins, or --low beside it"
            raise UsageError(f"--high: got {options.high:,.10g}, allowed: {allowed}") from None
        raise UsageError(f"--{message}") from None


def describe(collection: Collection) -> str:
    """
    >>> describe(Collection(name="age", low=0, high=99, buckets=100, integer=True, unit="years", epsilon=1))
    '0 to 99 years, whole numbers, 100 buckets, at ε = 1'
    >>> describe(Collection(name="answer", low=0, high=1, buckets=2, mechanism="randomized_response", epsilon=1))
    '0 to 1, 2 buckets, by randomized_response, at ε = 1'
    """
    unit = f" {shown(collection.unit)}" if collection.unit else ""
    kind = ", on a log scale" if collection.scale == "log" else ", whole numbers" if collection.integer else ""
    ends = f"{collection.low:,.10g} to {collection.high:,.10g}"
    means = "" if collection.mechanism.name == DEFAULT_MECHANISM else f", by {collection.mechanism.name}"
    return f"{ends}{unit}{kind}, {collection.buckets:,} buckets{means}, at ε = {collection.epsilon:g}"


def yaml_of(collection: Collection) -> str:
    """The collection as an entry of a file that `hushgram.load_collections` reads, without what has its default.

    >>> print(yaml_of(Collection(name="age", low=0, high=99, buckets=100, integer=True, epsilon=1)))
    collections:
      age:
        domain: {low: 0, high: 99, integer: true}
        epsilon: 1.0
        buckets: 100
    <BLANKLINE>
    """
    import yaml

    keys = (*DOMAIN_KEYS, "epsilon", "buckets", "mechanism")
    chosen = {name: value for name, value in collection.to_dict().items() if name in keys}
    domain = {name: _shortest(chosen.pop(name)) for name in DOMAIN_KEYS if name in chosen}
    entry = {"collections": {collection.name: {"domain": domain, **chosen}}}
    return yaml.safe_dump(entry, default_flow_style=None, sort_keys=False, allow_unicode=True, width=1000)


def _shortest(value: Any) -> Any:
    """A whole number without its decimal point."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def make_folder(output: Path) -> None:
    """An empty folder; one that this command has made before is replaced."""
    check_directory("--output", str(output))
    if output.exists() and any(output.iterdir()) and not (output / MARKER).exists():
        raise UsageError(f"--output {output}: holds other files, allowed: a new folder, or one that hushgram try made")
    with writing("--output", str(output)):
        for name in ("reports", "results"):
            shutil.rmtree(output / name, ignore_errors=True)
        output.mkdir(parents=True, exist_ok=True)
        (output / MARKER).write_text("`hushgram try` made this folder, and replaces its files when it runs again.\n")


def simulate(collection: Collection, values: FloatArray, output: Path) -> int:
    """Writes the collection, reports of simulated devices, and the truth about them; returns how many devices."""
    from hushgram.pipelines.simulate.command import write_reports  # only here: it takes its time to load

    count = min(max(values.size, FEWEST_DEVICES), MOST_DEVICES)
    rng = fleet_generator(0, collection, "try", values.size)

    def draw(size: int, rng: np.random.Generator) -> FloatArray:
        return values if size == values.size else rng.choice(values, size)

    devices = simulate_devices(collection, draw, START_MS + rng.integers(0, HOUR_MS, count), rng)
    with writing("--output", str(output)):
        (output / "collections.yaml").write_text(yaml_of(collection), encoding="utf-8")
        write_reports(output / "reports", collection, devices, packed=True, ids=None)
        lines = [json.dumps(line) + "\n" for line in truth(collection, devices)]
        (output / "truth.jsonl").write_text("".join(lines), encoding="utf-8")
    return count


def show_results(results: str, truth: str, proposed: bool) -> None:
    """Prints the estimate beside the truth. Values that crowd at an end of a domain which was proposed for them belong
    there: of such a domain there is no warning."""
    from hushgram.pipelines import show
    from hushgram.pipelines.results import read_results
    from hushgram.schemas.records import Snapshot

    snapshots = read_results(results, "snapshots", Snapshot.from_avro)
    if proposed:
        snapshots = [replace(snapshot, heavy_low_end=None, heavy_high_end=None) for snapshot in snapshots]
    for line in show.tables(snapshots, show.read_truth(truth)):
        say(line)


def write_page(results: str, page: Path, title: str) -> str | None:
    """The address of the page, if it could be made."""
    from hushgram.pipelines.view import command as view

    try:
        view.run([results, "--output", str(page), "--title", title])
    except UsageError as error:  # its extra may be missing, and the rest is there
        complain(str(error))
        return None
    return page.resolve().as_uri()
