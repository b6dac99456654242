"""`python -m devtools.vectors`: writes clients/vectors, what clients in every language are held to.

A case is a request of `hushgram conform` and its answer. Positions, cells and messages are those of the library and of
fastavro, so that no client is tested against itself.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from devtools.odd_manifests import accepted_manifests, refused_manifests
from hushgram import Collection, Windows
from hushgram.device import Budget, Device
from hushgram.manifest.locating import DIGITS
from hushgram.mechanisms import MECHANISMS
from hushgram.sampling import Below
from hushgram.schemas.messages import encode_report
from hushgram.transforms.collection_index import cell_width

FOLDER = Path(__file__).parents[1] / "clients" / "vectors"
FORMAT = "hushgram-vectors/1"
HOUR, DAY = 3_600_000, 86_400_000
TIME = 1_767_229_199_999
"""The last millisecond of an hour."""
TINIEST = 5e-324

Json = dict[str, Any]


def render() -> dict[str, str]:
    """Every file's name and text."""
    files = {f"{name}.json": [_set(name, domain) for domain in _collections(name)] for name in MECHANISMS}
    files |= {"refused.json": list(refused_sets()), "accepted.json": list(accepted_sets())}
    files |= {"ledger.json": list(ledger_sets())}
    return {name: _text(sets) for name, sets in files.items()}


def _text(sets: Sequence[Json]) -> str:
    """One case a line, so that a difference can be read."""
    parts = []
    for part in sets:
        cases = ",\n    ".join(json.dumps(case) for case in part["cases"])
        head = f'{{"name": {json.dumps(part["name"])},\n   "manifest": {json.dumps(part["manifest"])}'
        parts.append(f'  {head},\n   "cases": [\n    {cases}]}}')
    return f'{{"format": "{FORMAT}", "sets": [\n' + ",\n".join(parts) + "]}\n"


# Collections ----------------------------------------------------------------------------------------------------------


def _collections(mechanism: str) -> Iterator[tuple[str, Collection]]:
    """Every kind of domain that a mechanism takes, and options that change its law."""
    common: Json = {"name": "küche", "mechanism": mechanism, "groups": ["DE", "ÅØ"]}
    buckets = 16
    linear = {**common, "low": 0, "high": 180, "epsilon": 1.0, "buckets": buckets}
    yield "linear", Collection(**linear)
    kind = MECHANISMS[mechanism]
    if kind.takes_integers:
        yield "integer", Collection(**common, low=-3, high=12, integer=True, epsilon=2.5, buckets=buckets)
    if not kind.mean_only:
        yield "log", Collection(**common, low=0.1, high=2500, scale="log", epsilon=0.5, buckets=buckets)
    yield "around zero", Collection(**common, low=-1e-3, high=7.3, epsilon=0.7, buckets=buckets)
    if mechanism == "square_wave":
        yield "several widths", Collection(**linear, widths=[0.5, 1, 1.25])
        # 64 random bits modulo the total are far from uniform, and doubles do not hold the weights.
        yield "a total near 2^63", Collection(**{**linear, "epsilon": 19.8, "buckets": 8}, bandwidth=0.15)
    if mechanism == "general_wave":
        yield "triangle", Collection(**linear, wave_ratio=0.0, output_buckets=300)
    if mechanism == "hierarchy":
        yield "rare leaves", Collection(**{**linear, "buckets": 64}, branching=2, level_decay=0.5)
    if mechanism == "local_hashing":
        yield "five symbols", Collection(**linear, symbols=5)
    if mechanism == "seeded_hashing":
        yield "many symbols", Collection(**{**linear, "epsilon": 8.0, "buckets": 5000})


def _set(mechanism: str, domain: tuple[str, Collection]) -> Json:
    name, collection = domain
    made = random.Random(f"{mechanism} {name}")
    cases: list[Json] = []
    for index, value in enumerate(_values(collection, made)):
        cases.append(_case(collection, value, made, ids=index % 3 == 0, group=(None, "DE", "ÅØ")[index % 9 // 3]))
    middle = _values(collection, made)[2]
    for draws in _scripts(collection, _position(collection, middle)):
        cases.append(_case(collection, middle, made, script=draws))
    cases.append(_case(collection, middle, made, ids=True, repeat=3))
    cases += [_refusal(value) for value in ("NaN", "Infinity", "-Infinity")]
    cases.append({"request": {"value": repr(middle), "group": "XX"}, "answer": {"refused": True}})
    return {"name": f"{mechanism}, {name}", "manifest": collection.manifest(), "cases": cases}


def _values(collection: Collection, made: random.Random) -> list[float]:
    """Both ends, the middle, outside, zeros, the least numbers, ties and edges with their neighbours."""
    low, high = collection.low, collection.high
    middle = math.sqrt(low * high) if collection.scale == "log" else (low + high) / 2
    values = [low, high, middle, low - 1.0, high * 2, -1e308, 1.7976931348623157e308, 0.0, -0.0, TINIEST, -TINIEST]
    values += [math.nextafter(low, math.inf), math.nextafter(high, -math.inf)]
    if collection.integer:
        values += [0.5, 1.5, 2.5, -0.5, -2.5, 11.5, math.nextafter(0.5, 1.0)]
    parts = min(collection.mechanism.positions, collection.buckets)
    for k in sorted(made.sample(range(1, parts), min(4, parts - 1))):
        edge = float(collection.domain.from_unit([k / parts])[0])
        if collection.scale == "log":
            edge = _log_edge(collection, k, parts)
        values += [math.nextafter(edge, -math.inf), edge, math.nextafter(edge, math.inf)]
    values += [made.uniform(low, high) for _ in range(4)]
    on_grid = collection.mechanism.positions > collection.buckets
    if on_grid and collection.scale == "linear" and not collection.integer:
        values += _ties(collection, made)
    return values


def _ties(collection: Collection, made: random.Random) -> list[float]:
    """Values exactly halfway between two steps of a grid, one above an even step and one above an odd one."""
    steps, found = collection.mechanism.positions - 1, dict[int, float]()
    for step in made.sample(range(steps), 1000):
        value = float(collection.domain.from_unit([(step + 0.5) / steps])[0])
        if float(collection.domain.to_unit(np.array([value]))[0] * steps) == step + 0.5:
            found[step % 2] = value
    assert len(found) == 2
    return list(found.values())


def _log_edge(collection: Collection, k: int, parts: int) -> float:
    """The least double that is not below low·(high/low)^(k/parts), by a search over doubles."""
    low, high = Decimal(collection.low), Decimal(collection.high)
    share = DIGITS.divide(Decimal(k), Decimal(parts))
    exact = DIGITS.multiply(low, DIGITS.power(DIGITS.divide(high, low), share))
    edge = float(exact)
    while Decimal(edge) < exact:
        edge = math.nextafter(edge, math.inf)
    while Decimal(math.nextafter(edge, 0.0)) >= exact:
        edge = math.nextafter(edge, 0.0)
    return edge


def _position(collection: Collection, value: float) -> int:
    """By the library; on a log scale by the definition, as the library's logarithm may round otherwise at an edge."""
    mechanism = collection.mechanism
    if collection.scale == "linear":
        return int(mechanism.locate(collection.domain.to_unit(np.array([value])))[0])
    locate, clipped = collection.manifest()["locate"], min(max(value, collection.low), collection.high)
    if locate["method"] == "edges":
        edges = [_log_edge(collection, k, mechanism.positions) for k in range(1, mechanism.positions)]
        return sum(clipped >= edge for edge in edges)
    knots = np.array(locate["knots"], dtype=np.float64)
    part = int(np.clip(np.searchsorted(knots, clipped, side="right") - 1, 0, len(knots) - 2))
    share = (np.float64(clipped) - knots[part]) / (knots[part + 1] - knots[part])
    return int(np.rint((part + share) / (len(knots) - 1) * locate["steps"]))


# Draws ----------------------------------------------------------------------------------------------------------------


def _candidates(collection: Collection, limit: int, start: int) -> list[int]:
    """Draws below a limit next to which something changes: the ends, and of a law the edges between its outcomes."""
    found = {0, limit - 1, limit // 2}
    for law in collection.mechanism.laws:
        if limit == law.T:
            favoured, excess = law.width * law.P, law.P - law.Q
            edges = [law.P, favoured, favoured + start * law.Q, law.width * excess, (law.width - 1) * law.P]
            edges += [favoured + law.Q, law.width * excess + law.Q * (start + 1), excess]
            found |= {edge + near for edge in edges for near in (-1, 0)}
    return sorted(draw for draw in found if 0 <= draw < limit)


def _random_below(collection: Collection, position: int, made: random.Random) -> Below:
    def below(limit: int) -> int:
        if made.random() < 0.5:
            return made.choice(_candidates(collection, limit, position))
        return made.randrange(limit)

    return below


def _scripts(collection: Collection, position: int) -> Iterator[list[int]]:
    """Every candidate for the last draw of a channel's law, after draws that lead to it."""
    for channel, law in enumerate(collection.mechanism.laws):
        for draw in _candidates(collection, law.T, position):
            taken = _draws_to(collection, position, channel, law.T, draw)
            if draw in taken:
                yield taken


def _draws_to(collection: Collection, position: int, channel: int, total: int, draw: int) -> list[int]:
    taken: list[int] = []

    def below(limit: int) -> int:
        taken.append(draw if limit == total else min(channel, limit - 1))
        return taken[-1]

    collection.mechanism.perturb(position, below)
    return taken


# Cases ----------------------------------------------------------------------------------------------------------------


def _case(
    collection: Collection,
    value: float,
    made: random.Random,
    *,
    script: Sequence[int] = (),
    ids: bool = False,
    group: str | None = None,
    repeat: int | None = None,
) -> Json:
    position = _position(collection, value)
    answers, free = iter(script), _random_below(collection, position, made)
    draws: list[list[str]] = []

    def below(limit: int) -> int:
        answer = next(answers, None) if script else free(limit)
        assert answer is not None
        draws.append([str(limit), str(answer)])
        return answer

    cells = [collection.mechanism.perturb(position, below) for _ in range(repeat or 1)]
    request: Json = {"value": repr(value), "draws": draws}
    answer: Json = {"position": position, "cell": cells[0]} if repeat is None else {"cells": cells}
    if repeat is not None:
        request["repeat"] = repeat
    if group is not None:
        request["group"] = group
    if ids:
        time, upload = TIME + made.randrange(10**9), made.randbytes(16)
        request |= {"time": time, "id": upload.hex()}
        report: Json = {"collection": collection.name, "revision": collection.revision, "group": group, "id": upload}
        report["event_time"] = time // HOUR * HOUR
        if repeat is None:
            answer["report"] = encode_report({**report, "cell": cells[0]}).hex()
        packed = np.array(cells, dtype=f"<u{cell_width(collection.mechanism.cells)}").tobytes()
        answer["batch"] = encode_report({**report, "cells": packed}).hex()
    return {"request": request, "answer": answer}


def _refusal(value: str) -> Json:
    return {"request": {"value": value}, "answer": {"refused": True}}


# Odd manifests --------------------------------------------------------------------------------------------------------


def refused_sets() -> Iterator[Json]:
    """Each a small change of a manifest, for which a device must draw nothing."""
    for name, manifest in refused_manifests():
        yield {"name": name, "manifest": manifest, "cases": [_refusal("37.5")]}


def accepted_sets() -> Iterator[Json]:
    """Changes that change nothing."""
    for name, collection, manifest in accepted_manifests():
        made = random.Random(name)
        cases = [_case(collection, 37.5, made, ids=True, group=group) for group in (None, *collection.groups)]
        yield {"name": name, "manifest": manifest, "cases": cases}


# The ledger -----------------------------------------------------------------------------------------------------------


def ledger_sets() -> Iterator[Json]:
    """Times at which a device wants to report, and whether its ledger, empty at first, grants it."""
    start = TIME // (7 * DAY) * 7 * DAY
    common: Json = {"name": "c", "low": 0, "high": 1, "epsilon": 0.75, "buckets": 4}
    hourly = [start + hour * HOUR for hour in range(0, 15 * 24, 5)]
    jumping = [start + DAY * day for day in (0, 1, 8, 0, 1, 7, 8, 8, 8, 30, 13, 14, 30, 30, 37, 36, 44)]
    edges = [start + 7 * DAY + offset for offset in (-2, -1, 0, 1, 7 * DAY - 1, 7 * DAY, 7 * DAY + 1)]
    for name, device in (
        ("two reports a week", Device(1.5, 7 * DAY)),
        ("a budget that ends between two reports", Device(2.2, 7 * DAY)),
        ("four slots", Device(1.5, 7 * DAY, 4)),
        ("slots that do not divide the period", Device(0.75, 7 * DAY, 11)),
        ("a total that is less", Device(3.0, 7 * DAY, total=Budget(1.5, 10 * DAY))),
        ("no budget", None),
    ):
        collection = Collection(**common, device=device, windows=Windows())
        cases = []
        for times in (hourly, jumping, edges):
            for slot in range(0, device.slots if device else 1, 3):
                granted = list(_grants(collection, slot, times))
                cases.append({"request": {"slot": slot, "times": times}, "answer": {"granted": granted}})
        yield {"name": name, "manifest": collection.manifest(), "cases": cases}


def _grants(collection: Collection, slot: int, times: Sequence[int]) -> Iterator[bool]:
    """From all that was granted before: at most the budget in each period, none before a period that was entered."""
    device, past = collection.device, list[int]()
    for time in times:
        fine = True
        if device is not None:
            begin, end = (-(-part * device.every // device.slots) for part in (slot, slot + 1))
            fine = begin <= time % device.every < end
            for budget in (device.budget, device.total):
                if budget is not None:
                    spent = [one // budget.every for one in past]
                    now = time // budget.every
                    fine = fine and now >= max(spent, default=now)
                    fine = fine and (spent.count(now) + 1) * collection.epsilon <= budget.epsilon
        if fine:
            past.append(time)
        yield fine


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in render().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
