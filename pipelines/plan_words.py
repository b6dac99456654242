"""A plan in words: tables, a recommendation, what a target takes; and the same for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hushgram import Collection
from hushgram.planning import MOST_REPORTS, Advice, Alternative, Level, Need, Outlook, Shape, Target, advise, differs
from hushgram.trials import Summary
from pipelines.words import number, shown

CHANGES = {"now": "as planned", "epsilon": "another ε", "buckets": "other buckets", "mechanism": "another mechanism"}
NAMES = {"w1": "W1", "ks": "KS", "p50": "median"}


@dataclass(frozen=True)
class Plan:
    """What is planned, and what the simulation found."""

    given: Collection
    collection: Collection
    """The same as it is simulated."""
    windows: int
    shapes: Sequence[Shape]
    levels: Sequence[tuple[Level, Outlook]]
    chosen: Level
    tried: Sequence[tuple[Alternative, Outlook]]
    target: Target | None
    need: Need | None

    @property
    def figures(self) -> list[str]:
        return list(self.levels[0][1].figures)

    @property
    def advice(self) -> Advice:
        return advise(self.tried)


def told(plan: Plan) -> Iterator[str]:
    yield from _heading(plan)
    yield ""
    yield "What a snapshot will be like:"
    yield from _table(_level_rows(plan))
    yield from _legend(plan)
    yield ""
    yield f"What else could be, for {plan.chosen.name} ({plan.chosen.reports:,} reports):"
    yield from _table(_alternative_rows(plan))
    yield ""
    yield recommendation(plan)
    if plan.target is not None and plan.need is not None:
        yield ""
        yield from _target(plan, plan.target, plan.need)


def _heading(plan: Plan) -> Iterator[str]:
    c, total = plan.given, plan.levels[-1][0].reports
    unit = f" {shown(c.unit)}" if c.unit else ""
    scale = " on a log scale" if c.scale == "log" else ", whole numbers" if c.integer else ""
    yield f"{shown(c.name)}: {number(c.low)} to {number(c.high)}{unit}{scale}; {_method(c)}; ε = {c.epsilon:g}"
    shapes = ", ".join(shown(shape.name) for shape in plan.shapes)
    several = f"the shapes {shapes}" if len(plan.shapes) > 1 else f"the shape {shapes}"
    yield f"{total:,} reports in all; simulated with {several}"
    if c.mechanism != plan.collection.mechanism:
        yield f"{c.mechanism} is simulated as {plan.collection.mechanism}, which has the same noise"


def _method(c: Collection) -> str:
    bins = f", {c.bins:,} bins" if c.bins is not None else ""
    return f"{c.mechanism} with {c.estimator}" + ("" if c.estimator == "mean" else f"{bins}, {c.buckets:,} buckets")


def _level_rows(plan: Plan) -> Iterator[list[str]]:
    several = len(plan.shapes) > 1
    judged = plan.advice.figure
    worst = [f"worst shape ({NAMES.get(judged, judged)})"] if several else []
    yield ["snapshot of", "reports", *(NAMES.get(name, name) for name in plan.figures), *worst, ""]
    for level, seen in plan.levels:
        enough = level.reports >= plan.given.minimum_reports
        note = "" if enough else f"too few: the collection asks for {plan.given.minimum_reports:,}"
        name, figure = seen.worst(judged)
        hardest = [f"{shown(name)} ({_figure(judged, figure)})"] if several else []
        yield [level.name, f"{level.reports:,}", *_figures(seen), *hardest, note]


def _legend(plan: Plan) -> Iterator[str]:
    unit = shown(plan.given.unit) or "the values' unit"
    seen = dict(plan.levels)[plan.chosen]
    over = ", averaged over the shapes" if len(plan.shapes) > 1 else ""
    yield f"  ± is half of a 95 % interval, in {unit}{over}."
    if "w1" not in plan.figures:
        yield f"  {plan.given.mechanism} tells the mean only."
        return
    span = plan.given.high - plan.given.low
    share = "" if plan.given.scale == "log" else f" (0.01 is {number(span / 100, 3).rstrip('0').rstrip('.')})"
    yield f"  W1: how far the quantiles are off, on average, as a share of the domain{share}."
    yield "  KS: the largest error of any share of values below a point."
    error = seen.mean("w1")
    yield f"  Simulation itself leaves W1 uncertain by {error.error / error.mean:.0%} (a standard error; --runs lessens it)."


def _alternative_rows(plan: Plan) -> Iterator[list[str]]:
    judged = plan.advice.figure
    yield ["", "ε", "method", *(NAMES.get(name, name) for name in plan.figures), f"{NAMES.get(judged, judged)} now = 1"]
    now = plan.tried[0][1].mean(judged)
    for other, seen in plan.tried:
        then = seen.mean(judged)
        ratio = "1" if other.kind == "now" else f"{then.mean / now.mean:.2f}" if differs(then, now) else "about 1"
        method = _method(other.collection)
        yield [CHANGES[other.kind], f"{other.collection.epsilon:g}", method, *_figures(seen), ratio]


def recommendation(plan: Plan) -> str:
    """In a sentence or two, with the reason."""
    advice = plan.advice
    judged = NAMES.get(advice.figure, f"the interval of the {advice.figure}")
    if advice.choice.kind == "now":
        said = f"Keep {_method(plan.collection)}: nothing else that was tried has less {judged}"
        said += ", beyond the noise of the simulation." if advice.figure == "w1" else "."
        if advice.as_good is not None:
            said += f" {advice.as_good.collection.buckets:,} buckets would do as well, and cost less to estimate."
        return said
    seen = next(outlook for other, outlook in plan.tried if other is advice.choice)
    now = plan.tried[0][1].figures[advice.figure]
    better = [shape for shape, then in seen.figures[advice.figure].items() if then.mean < now[shape].mean]
    where = ""
    if len(plan.shapes) > 1:
        where = " on every shape" if len(better) == len(plan.shapes) else f", though only on {', '.join(better)}"
    then, before = _figure(advice.figure, advice.then), _figure(advice.figure, advice.now)
    return (
        f"Take {_method(advice.choice.collection)}: {judged} {then} instead of {before}, {advice.gain:.0%} less{where}; "
        "that is beyond the noise of the simulation."
    )


def _target(plan: Plan, target: Target, need: Need) -> Iterator[str]:
    unit = f" {shown(plan.given.unit)}" if plan.given.unit and target.figure not in ("w1", "ks") else ""
    sign = " " if target.figure in ("w1", "ks") else " ± "
    wish = f"{NAMES.get(target.figure, target.figure)}{sign}{target.most:g}{unit}"
    shape = f" (on {shown(need.shape)}, the shape that needs the most)" if len(plan.shapes) > 1 else ""
    if need.reports is None:
        most, error = need.seen[-1]
        yield (
            f"{wish} is out of reach: {most:,} reports in one snapshot leave {number(error, 2)}{unit}{shape}. "
            "What is left then is bias: take more buckets, a larger ε or another mechanism."
        )
        return
    yield f"{wish} takes about {rounded(need.reports):,} reports in one snapshot{shape}:"
    rows = [["for every snapshot of", "reports in all", "this plan"]]
    for level, _ in plan.levels:
        total = need.reports / level.share
        reach = "reaches it" if level.reports >= need.reports else f"has {level.reports / need.reports:.2g} of it"
        rows.append([level.name, f"{rounded(total):,}" if total <= MOST_REPORTS else f"more than {MOST_REPORTS:,}", reach])
    yield from _table(rows)


def rounded(reports: float) -> int:
    """Up to two digits: simulation knows no more.

    >>> rounded(31_415), rounded(99_999), rounded(10)
    (32000, 100000, 10)
    """
    whole = int(-(-reports // 1))
    unit = 10 ** max(len(str(whole)) - 2, 0)
    return -(-whole // unit) * unit


def _figures(seen: Outlook) -> list[str]:
    return [_figure(name, seen.mean(name)) for name in seen.figures]


def _figure(name: str, summary: Summary) -> str:
    return number(summary.mean, 2) if name in ("w1", "ks") else f"± {number(summary.mean, 2)}"


def _table(rows: Iterator[list[str]] | Sequence[list[str]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def as_json(plan: Plan) -> dict[str, Any]:
    """Every figure with its standard error, by shape."""
    advice = plan.advice
    return {
        "collection": plan.given.name,
        "unit": plan.given.unit,
        "levels": [
            {
                "of": level.name,
                "reports": level.reports,
                "enough": level.reports >= plan.given.minimum_reports,
                "figures": _plain(seen),
            }
            for level, seen in plan.levels
        ],
        "alternatives_at": plan.chosen.name,
        "alternatives": [
            {
                "change": other.kind,
                **_parameters(other.collection),
                "figures": _plain(seen),
                "recommended": other is advice.choice,
            }
            for other, seen in plan.tried
        ],
        "recommendation": recommendation(plan),
        "target": None
        if plan.target is None or plan.need is None
        else {**asdict(plan.target), "reports": plan.need.reports, "shape": plan.need.shape},
    }


def _parameters(c: Collection) -> dict[str, Any]:
    names = ("epsilon", "mechanism", "estimator", "buckets", "bins", "branching")
    return {name: getattr(c, name) for name in names if getattr(c, name) is not None}


def _plain(seen: Outlook) -> Mapping[str, Mapping[str, Any]]:
    return {
        name: {shape: asdict(summary) for shape, summary in by_shape.items()} for name, by_shape in seen.figures.items()
    }
