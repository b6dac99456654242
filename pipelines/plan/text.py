"""A plan in words: tables, a recommendation, what a target takes; and the same for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hushgram import Collection
from hushgram.intervals import ASSUMPTIONS
from hushgram.pipelines.cli.tables import table_lines
from hushgram.pipelines.formatting import number, shown
from hushgram.pipelines.plan.definition import changed_keys, yaml_lines
from hushgram.planning import (
    BINS,
    ERRORS,
    Advice,
    Alternative,
    Level,
    Need,
    Outlook,
    Shape,
    Target,
    differs,
    keeps_reports,
    reduction,
)
from hushgram.simulation import Summary
from hushgram.transforms.trust import LIARS
from hushgram.windows import format_duration

NAMES = {"w1": "W1", "ks": "KS", "p50": "median"}
CHANGES = {"now": "as planned", "estimator": "other estimator", "mechanism": "other method"}


@dataclass(frozen=True)
class Plan:
    """What is planned, and what the simulation found."""

    request: Collection
    collection: Collection
    """The same as it is simulated."""
    shapes: Sequence[Shape]
    levels: Sequence[tuple[Level, Outlook]]
    chosen: Level
    tried: Sequence[tuple[Alternative, Outlook]]
    advice: Advice
    rolled_up: Outlook | None
    """What is advised, with the reports of the largest level, if it is another."""
    target: Target | None
    needs: Mapping[str, Need]
    """What the target takes, by shape."""
    cautions: Sequence[str] = ()
    """What values of the shapes lie outside of the domain, or crowd at an end of it."""

    @property
    def figures(self) -> list[str]:
        return list(self.levels[0][1].figures)


def report_lines(plan: Plan) -> Iterator[str]:
    yield from _heading(plan)
    yield ""
    yield "What snapshots will be like" + (", on average over the shapes:" if len(plan.shapes) > 1 else ":")
    yield from _table(_level_rows(plan))
    yield from _legend(plan)
    yield ""
    yield f"What else could be, for {plan.chosen.name} ({plan.chosen.reports:,} reports):"
    yield from _table(_alternative_rows(plan))
    yield ""
    yield from recommendation(plan)
    yield from _definition(plan)
    if plan.target is not None:
        yield ""
        yield from _target(plan, plan.target)


def _heading(plan: Plan) -> Iterator[str]:
    c, total = plan.request, plan.levels[-1][0].reports
    unit = f" {shown(c.unit)}" if c.unit else ""
    scale = " on a log scale" if c.scale == "log" else ", whole numbers" if c.integer else ""
    yield f"{shown(c.name)}: {c.low:,.10g} to {c.high:,.10g}{unit}{scale}; {method(c)}; ε = {c.epsilon:g}"
    shapes = ", ".join(shown(shape.name) for shape in plan.shapes)
    yield f"{total:,} reports in all, simulated on the shape{'s' if len(plan.shapes) > 1 else ''} {shapes}"
    if c.mechanism.name != plan.collection.mechanism.name:
        yield f"{c.mechanism.name} is simulated as {plan.collection.mechanism.name}, whose noise is nearly the same"
    yield from _device(c)
    yield from plan.cautions


def _device(c: Collection) -> Iterator[str]:
    """What the budget of a device means."""
    if c.device is None:
        return
    slots, every = c.device.slots, format_duration(c.device.every)
    if slots > 1:
        yield f"that is 1 in {slots:,} of --reports: a device reports in one of {slots:,} slots of each {every}"
    most, yearly = c.device.reports(c.epsilon), c.device.reports_in_a_year(c.epsilon)
    yield (
        f"a device makes at most {most:,} report{'s' if most > 1 else ''} in {every}, and {yearly:,} in a year: "
        f"ε = {yearly * c.epsilon:,.6g} in all, if they are about the same thing"
    )


def method(c: Collection, with_widths: bool = True) -> str:
    """How it is collected and estimated."""
    if c.estimator == "mean":
        return c.mechanism.name
    bins = getattr(c.mechanism, "bins", None)
    parts = f"{c.buckets:,} buckets" if bins is None else f"{bins:,} bins"
    widths = f", {widths_of(c)}" if with_widths and getattr(c.mechanism, "widths", None) else ""
    return f"{c.mechanism.name} with {c.estimator}, {parts}{widths}"


def widths_of(c: Collection) -> str:
    """The widths of its wave.

    >>> widths_of(Collection(name="c", low=0, high=1, epsilon=1.0, widths=[0.5, 1, 1.25]))
    'widths 0.5 1 1.25'
    """
    factors = getattr(c.mechanism, "widths", None)
    return f"widths {' '.join(f'{factor:g}' for factor in factors)}" if factors else "one width"


def _name(figure: str) -> str:
    return NAMES.get(figure, figure)


def _level_rows(plan: Plan) -> Iterator[list[str]]:
    judged, several = plan.advice.figure, len(plan.shapes) > 1
    worst = [f"{_name(judged)} at worst"] if several else []
    yield ["snapshot of", "reports", *map(_name, plan.figures), *worst, "central ε", ""]
    for level, seen in plan.levels:
        shape, figure = seen.worst(judged)
        hardest = [f"{_figure(judged, figure)} ({shown(shape)})"] if several else []
        few = level.reports < plan.request.minimum_reports
        note = f"too few: minimum_reports is {plan.request.minimum_reports:,}" if few else ""
        central = plan.request.central_epsilon(level.reports)
        towards_readers = "" if central is None else number(central, 2)
        yield [level.name, f"{level.reports:,}", *_figures(seen), *hardest, towards_readers, note]


def _legend(plan: Plan) -> Iterator[str]:
    unit = shown(plan.request.unit) or "the unit of the values"
    assumed = "" if "w1" not in plan.figures else f", {ASSUMPTIONS[plan.request.assumption]}"
    yield f"  ± is half of a 95 % interval, in {unit}{assumed}."
    if plan.request.mechanism.blanket is not None:
        yield "  The central ε holds, with δ = 10⁻⁸, towards readers of nothing but the tally of one such snapshot."
    if "w1" not in plan.figures:
        yield f"  {plan.request.mechanism.name} estimates the mean only."
        return
    hundredth = "" if plan.request.scale == "log" else f": 0.01 is {(plan.request.high - plan.request.low) / 100:g}"
    hundredth += f" {shown(plan.request.unit)}" if hundredth and plan.request.unit else ""
    yield f"  W1 is how far quantiles are off, on average, as a share of the domain{hundredth}."
    yield "  KS is the largest error of any share of values below a point."
    lying = plan.request.lying_bound(LIARS)
    if lying is not None:
        yield f"  If 1 % of the devices lied, unnoticed, such a share could be off by {number(lying, 2)} besides."
    yield "  Bins are those that a picture can show: as fine as the reports can tell them apart, 64 at most."
    w1 = dict(plan.levels)[plan.chosen].mean("w1")
    noise = _percent(w1.error / w1.mean)
    yield f"  These are means of {w1.runs} simulated estimates; W1 is known to {noise} (standard error)."


def _alternative_rows(plan: Plan) -> Iterator[list[str]]:
    judged, (present, planned) = plan.advice.figure, plan.tried[0]
    now = planned.mean(judged)
    yield ["", "ε", "method", *map(_name, plan.figures), f"{_name(judged)}, planned = 1"]
    for other, seen in plan.tried:
        then = seen.mean(judged)
        ratio = "1" if other is present else f"{then.mean / now.mean:.2f}" if differs(then, now) else "about 1"
        what = other.collection
        how = method(what, with_widths=other.kind != "widths")
        yield [change(other, present), f"{what.epsilon:g}", how, *_figures(seen), ratio]


def change(other: Alternative, present: Alternative) -> str:
    """In a word or two."""
    if other.kind in ("epsilon", "buckets"):
        more = getattr(other.collection, other.kind) > getattr(present.collection, other.kind)
        words = {"epsilon": ("less ε", "more ε"), "buckets": ("fewer buckets", "more buckets")}
        return words[other.kind][more]
    return widths_of(other.collection) if other.kind == "widths" else CHANGES[other.kind]


def recommendation(plan: Plan) -> Iterator[str]:
    """A sentence or two, with the reason."""
    advice, judged = plan.advice, "W1" if plan.advice.figure == "w1" else "interval of the mean"
    advised = method(advice.choice.collection)
    if advice.choice.kind == "now":
        yield f"Keep {advised}: nothing tried at this ε has a smaller {judged}, beyond the noise of the simulation."
        if advice.as_good is not None:
            buckets = f"{advice.as_good.collection.buckets:,} buckets"
            yield f"With {buckets} it is no worse, and an estimate costs less."
        return
    seen = next(outlook for other, outlook in plan.tried if other is advice.choice).figures[advice.figure]
    now = plan.tried[0][1].figures[advice.figure]
    worse = [shown(shape) for shape, then in seen.items() if then.mean > now[shape].mean]
    where = f", though not on {', '.join(worse)}" if worse else " on every shape" if len(seen) > 1 else ""
    then, before = (_figure(advice.figure, figure) for figure in (advice.then, advice.now))
    yield f"Take {advised}: its {judged} is {then} instead of {before}{where}."
    yield f"That is {_percent(advice.gain)} less, beyond the noise of the simulation."
    if plan.rolled_up is not None:
        level, present = plan.levels[-1]
        then, before = (_figure(advice.figure, one.mean(advice.figure)) for one in (plan.rolled_up, present))
        yield f"For {level.name} it would be {then} instead of {before}."
    yield from _effort(plan)


def _effort(plan: Plan) -> Iterator[str]:
    """What the change asks of devices, which is what it costs."""
    advice, (present, _) = plan.advice, plan.tried[0]
    if keeps_reports(advice.choice, present):
        yield "Devices change nothing, and reports that were already collected gain too, once they are estimated again."
    else:
        yield "It changes what devices send: they need the new definition, and their reports have a new revision."
    if advice.server_only is not None:
        other, then = advice.server_only
        figure, less = _figure(advice.figure, then), _percent(reduction(then, advice.now))
        yield f"With {other.collection.estimator} alone, and no change on devices, it is {figure}: {less} less."
    if advice.choice.collection.estimator == "log_spline" != present.collection.estimator:
        yield "log_spline may smooth over jumps and narrow peaks: --shape tries it on values of your own."


def _definition(plan: Plan) -> Iterator[str]:
    changed = changed_keys(plan.advice.choice.collection, plan.collection)
    if changed:
        yield "In the collections file:"
        yield from (f"  {line}" for line in yaml_lines(changed))


def _target(plan: Plan, target: Target) -> Iterator[str]:
    unit = f" {shown(plan.request.unit)}" if plan.request.unit and target.figure not in ERRORS else ""
    wish = f"{_name(target.figure)}{' ' if target.figure in ERRORS else ' ± '}{target.most:g}{unit}"
    yield f"{wish}: reports that one snapshot needs"
    rows = []
    for shape, need in plan.needs.items():
        error = f"out of reach: with {need.seen[-1][0]:,} it is {number(need.seen[-1][1], 2)}"
        rows.append([shown(shape), error if need.reports is None else f"{rounded(need.reports):,}"])
    yield from table_lines(["", ""], rows)
    within = [need.reports for need in plan.needs.values() if need.reports is not None]
    if len(within) < len(plan.needs):
        yield "  Out of reach is what bias leaves: more buckets, a larger ε or another mechanism may mend it."
    if not within or len(plan.levels) == 1:
        return
    yield f"For {rounded(max(within)):,} in every snapshot, the plan needs in all:"
    yield from table_lines(
        [""] * 3,
        [
            [level.name, f"{rounded(max(within) / level.share):,}", _reach(level.reports / max(within))]
            for level, _ in plan.levels
        ],
    )


def _reach(share: float) -> str:
    """
    >>> _reach(0.0061), _reach(0.15), _reach(2)
    ('it has 0.61 % of that', 'it has 15 % of that', 'it has enough')
    """
    return "it has enough" if share >= 1 else f"it has {100 * share:.2g} % of that"


def rounded(reports: float) -> int:
    """Up to two digits: simulation knows no more.

    >>> rounded(31_415), rounded(99_999), rounded(10)
    (32000, 100000, 10)
    """
    whole = int(-(-reports // 1))
    unit = 10 ** max(len(str(whole)) - 2, 0)
    return -(-whole // unit) * unit


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _figures(seen: Outlook) -> list[str]:
    return [_figure(name, seen.mean(name)) for name in seen.figures]


def _figure(name: str, summary: Summary) -> str:
    if name == BINS:
        return f"{summary.mean:.0f}"
    return number(summary.mean, 2) if name in ERRORS else f"± {number(summary.mean, 2)}"


def _table(rows: Iterable[list[str]]) -> list[str]:
    heading, *rest = rows
    return table_lines(heading, rest)


def as_json(plan: Plan) -> dict[str, Any]:
    """Every figure with its standard error, by shape."""
    advice = plan.advice
    return {
        "collection": plan.request.name,
        "unit": plan.request.unit,
        "cautions": list(plan.cautions),
        "lying_bound": plan.request.lying_bound(LIARS),
        "device": None
        if plan.request.device is None
        else {
            "slots": plan.request.device.slots,
            "reports_in_a_period": plan.request.device.reports(plan.request.epsilon),
            "reports_in_a_year": plan.request.device.reports_in_a_year(plan.request.epsilon),
        },
        "levels": [
            {
                "of": level.name,
                "reports": level.reports,
                "enough": level.reports >= plan.request.minimum_reports,
                "central_epsilon": plan.request.central_epsilon(level.reports),
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
        "recommendation": " ".join(recommendation(plan)),
        "definition": changed_keys(advice.choice.collection, plan.collection),
        "target": None
        if plan.target is None
        else {**asdict(plan.target), "reports": {shape: need.reports for shape, need in plan.needs.items()}},
    }


def _parameters(c: Collection) -> dict[str, Any]:
    options = {name: getattr(c.mechanism, name, None) for name in ("bins", "branching", "widths")}
    return {
        **{"epsilon": c.epsilon, "mechanism": c.mechanism.name, "estimator": c.estimator, "buckets": c.buckets},
        **{name: value for name, value in options.items() if value is not None},
    }


def _plain(seen: Outlook) -> Mapping[str, Mapping[str, Any]]:
    return {
        name: {shape: asdict(summary) for shape, summary in by_shape.items()} for name, by_shape in seen.figures.items()
    }
