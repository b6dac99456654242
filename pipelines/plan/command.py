"""`hushgram plan`: predicts by simulation the error of a collection, and what would lessen it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context, resource_tracker
from typing import Any

import numpy as np

from hushgram import Collection, CollectionError
from hushgram.domain import find_buckets
from hushgram.pipelines.cli import signals
from hushgram.pipelines.cli.console import UsageError, chosen_collection, command_parser, say
from hushgram.pipelines.domain_warnings import outside_words
from hushgram.pipelines.formatting import shown
from hushgram.pipelines.plan import figure
from hushgram.pipelines.plan.text import Plan, as_json, report_lines
from hushgram.pipelines.simulate.shapes import draw_for, known_values, missing_words
from hushgram.planning import (
    MOST_REPORTS,
    Level,
    Runs,
    Shape,
    Target,
    advise,
    alternatives,
    figures_of,
    grid,
    levels,
    make_plannable,
    outlook,
    parse_target,
    reports_needed,
    width_alternatives,
)
from hushgram.transforms.gate import CHILDREN

EXAMPLE = (
    "hushgram plan --collections collections.yaml --collection commute --reports 50000 --groups 10 --windows 24 "
    "--target 'median ± 2 minutes' --plot plan.png"
)
DEFAULT_SHAPES = ("beta(5,2)", "lognormal", "bimodal", "uniform")
VALUES = 1 << 20
"""The number of drawn values that stand for a shape."""
INTERVALS = 2
"""The number of runs that intervals are computed of: they cost more than the estimate, and hardly differ by run."""
ALONE = 128
"""Up to this many buckets one process is done before others would have started."""

Later = Callable[[], Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--collection", metavar="NAME", help="which of them (default: the only one)")
    parser.add_argument(
        "--reports",
        required=True,
        type=int,
        metavar="N",
        help="the number of reports, over all groups and windows together",
    )
    parser.add_argument(
        "--groups", type=int, metavar="N", help="the number of groups (default: as many as the collection lists, or 1)"
    )
    parser.add_argument("--windows", type=int, default=1, metavar="N", help="the number of windows (default: 1)")
    parser.add_argument(
        "--shape",
        action="append",
        metavar="SHAPE",
        help=f"what the values may look like; may be repeated (default: {', '.join(DEFAULT_SHAPES)}); "
        f"one of {known_values()}",
    )
    parser.add_argument(
        "--target", metavar="ERROR", help="an error such as 'median ± 2 minutes', to find the reports it takes"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw a figure, as .png or .svg")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON instead of tables")
    parser.add_argument(
        "--runs", type=int, default=8, metavar="N", help="simulated estimates of each shape (default: 8)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="equal seeds give equal results (default: 1)")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("plan", __doc__, EXAMPLE)
    add_arguments(parser)
    return execute(parser.parse_args(argv))


def execute(options: argparse.Namespace) -> int:
    request = chosen_collection(options.collections, options.collection)
    groups = options.groups if options.groups is not None else len(request.groups) or 1
    _check_numbers(options, groups)
    target = _target(options.target, request)
    if options.plot:
        figure.check(options.plot)
    slots = request.device.slots if request.device else 1
    spread = levels(options.reports // slots, groups, options.windows, request.windows)
    if spread[0].reports < 1:
        of_slots = f" once they are divided by {slots} slots" if slots > 1 else ""
        raise UsageError(
            f"--reports: got {options.reports:,}, allowed: at least one for each group and window{of_slots}"
        )
    shapes, cautions = shapes_for(request, options.shape or DEFAULT_SHAPES, options.seed)
    with _workers(request) as begin:
        plan = replace(simulated(begin, request, spread, shapes, target, options), cautions=cautions)
        sketch = figure.sketch(begin, plan, options.seed) if options.plot else None
    if options.json:
        say(json.dumps(as_json(plan), ensure_ascii=False, indent=2))
    else:
        for line in report_lines(plan):
            say(line)
    if sketch is not None:
        figure.draw(plan, sketch, options.plot)
        if not options.json:
            say(f"\nThe picture is in {options.plot}.")
    return 0


def shapes_for(collection: Collection, names: Sequence[str], seed: int) -> tuple[list[Shape], list[str]]:
    """Distributions on the grid of the collection, each from values drawn as `hushgram simulate` draws them; and a line
    for missing values, and for each end of the domain that values of one lie beyond, or crowd at."""
    parts = grid(collection)
    shapes, cautions = [], []
    for name in dict.fromkeys(names):
        draw = draw_for(collection, name, "--shape")
        values = draw(VALUES, np.random.default_rng(seed))
        places = find_buckets(collection.domain.to_unit(values), parts)
        shapes.append(Shape(name, np.bincount(places, minlength=parts) / VALUES))
        cautions += missing_words(draw)
        cautions += [f"{shown(name)}: {line}" for line in outside_words(collection, values)]
    return shapes, cautions


def simulated(
    begin: Callable[..., Later],
    request: Collection,
    spread: Sequence[Level],
    shapes: Sequence[Shape],
    target: Target | None,
    options: argparse.Namespace,
) -> Plan:
    """Every level of the plan, and at the smallest that has reports enough also what else the collection could be."""
    collection = _plannable(request)
    now, *others = alternatives(collection)
    chosen = next((level for level in spread if level.reports >= request.minimum_reports), spread[-1])
    runs, searched = Runs(options.runs, INTERVALS), Runs(options.runs, 2 * INTERVALS)
    figures = dict.fromkeys([*figures_of(collection), *([target.figure] if target else [])])

    def attempt(other: Collection, reports: int) -> Later:
        return begin(outlook, other, shapes, reports, figures, runs, options.seed)

    # The longest first, so that no core is left with it at the end.
    needs = {
        shape.name: begin(reports_needed, collection, shape, target, chosen.reports, searched, options.seed)
        for shape in shapes
        if target
    }
    at_levels = {
        reports: attempt(collection, reports) for reports in sorted({level.reports for level in spread}, reverse=True)
    }
    at_others = [attempt(other.collection, chosen.reports) for other in others]
    seen = {reports: result() for reports, result in at_levels.items()}
    tried = [(now, seen[chosen.reports])]
    tried += [(other, result()) for other, result in zip(others, at_others, strict=True)]
    widths = width_alternatives(tried)
    at_widths = [attempt(other.collection, chosen.reports) for other in widths]
    tried += [(other, result()) for other, result in zip(widths, at_widths, strict=True)]
    advice = advise(tried)
    rolled_up = None
    if advice.choice is not now and chosen is not spread[-1]:
        work = (advice.choice.collection, shapes, spread[-1].reports, [advice.figure], runs, options.seed)
        rolled_up = begin(outlook, *work)()
    return Plan(
        request=request,
        collection=collection,
        shapes=shapes,
        levels=[(level, seen[level.reports]) for level in spread],
        chosen=chosen,
        tried=tried,
        advice=advice,
        rolled_up=rolled_up,
        target=target,
        needs={name: result() for name, result in needs.items()},
    )


@contextmanager
def _workers(collection: Collection) -> Iterator[Callable[..., Later]]:
    """What begins a piece of work, on all cores if it is worth it, and hands back the way to its result."""
    cores = os.cpu_count() or 1
    if cores == 1 or collection.buckets <= ALONE:
        yield lambda work, *arguments: lambda: work(*arguments)
        return
    resource_tracker.ensure_running()  # unblocks signals in this thread
    signals.block()
    # Not forked: threads of libraries need not survive that.
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn"), initializer=signals.let_terminate) as pool:

        def begin(work: Callable[..., Any], *arguments: Any) -> Later:
            with CHILDREN.passing("a worker"):
                return pool.submit(work, *arguments).result

        try:
            yield begin
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _plannable(request: Collection) -> Collection:
    try:
        return make_plannable(request)
    except CollectionError as error:
        raise UsageError(str(error)) from None


def _check_numbers(options: argparse.Namespace, groups: int) -> None:
    for name, value, least, most in (
        ("reports", options.reports, 1, MOST_REPORTS),
        ("groups", groups, 1, 10**6),
        ("windows", options.windows, 1, 10**6),
        ("runs", options.runs, 2, 1000),
        ("seed", options.seed, 0, 2**32 - 1),
    ):
        if not least <= value <= most:
            raise UsageError(f"--{name}: got {value}, allowed: a whole number from {least} to {most}")


def _target(text: str | None, collection: Collection) -> Target | None:
    try:
        return None if text is None else parse_target(text, collection)
    except CollectionError as error:
        raise UsageError(f"--{error}") from None
