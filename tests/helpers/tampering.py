"""Manifests that were tampered with, in every way that a language might overlook."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from hushgram import Budget, Collection, Device
from hushgram.mechanisms import MECHANISMS

DOMAIN: dict[str, Any] = {
    "name": "commute",
    "low": 1.0,
    "high": 180.0,
    "epsilon": 1.0,
    "buckets": 4,
    "groups": ["DE", "FR"],
}
BUDGET = Device(2.0, 1000, 2, Budget(3.0, 5000))
LOG_WAVE = Collection(**DOMAIN, scale="log", mechanism="general_wave").manifest()
SOURCES: list[dict[str, Any]] = [
    *(Collection(**DOMAIN, mechanism=mechanism, device=BUDGET).manifest() for mechanism in sorted(MECHANISMS)),
    Collection(**DOMAIN, widths=[0.5, 2], device=BUDGET).manifest(),
    Collection(**DOMAIN, scale="log", mechanism="square_wave").manifest(),
    {**LOG_WAVE, "locate": {**LOG_WAVE["locate"], "knots": ["1.0", "13.5", "180.0"]}},
    Collection(**{**DOMAIN, "low": 0, "high": 3}, integer=True, device=BUDGET).manifest(),
]
BOUNDS = [0, 1, 2, 18, 64, *(1 << bits for bits in (16, 26, 31, 32, 53, 62, 63, 64))]
"""Whole numbers near which a check or an overflow lies."""
ODD_TEXTS = ["NaN", "Infinity", "1e400", "1e-400", "-0", "-0.0", "0x1p3", "1_0", "1.", ".5", "1E2", "0" * 33, "\ufffd"]
ODD_NUMBERS = [-0.0, 0.5, 1.0, 1e15, 9007199254740991.0, 9007199254740992.0, 1e300, -1e300]


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """How to reach each entry of a manifest."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield (*way, key)
        yield from ways(inner, (*way, key))


def near(old: Any) -> st.SearchStrategy[int]:
    """Whole numbers near a bound, or near that which was there."""
    own = int(old) if str(old).isdigit() else 0
    return st.builds(int.__add__, st.sampled_from([*BOUNDS, own]), st.integers(-2, 2))


def alike(old: Any) -> list[Any]:
    """What some languages take for the same."""
    found: list[Any] = [[old], {"0": old}, str(old)]
    if isinstance(old, bool):
        return [*found, int(old), float(old), str(old).lower()]
    if isinstance(old, int | float):
        return [*found, float(old), bool(old)]
    if isinstance(old, str):
        found += [f" {old}", f"{old} ", f"{old}\n", f"0{old}", f"+{old}", f"{old}.0", old.upper()]
        found += [float(old)] if old.replace(".", "", 1).isdigit() else []
    if isinstance(old, list):
        found += [old[::-1], old + old[:1], old[:-1], old * 2, ",".join(map(str, old)), dict(enumerate(map(str, old)))]
    if isinstance(old, dict):
        found += [list(old), list(old.values()), {name.lower(): value for name, value in old.items()}, {}]
    return found


@st.composite
def tampered(draw: st.DrawFn) -> dict[str, Any]:
    """One entry, or two, become something else, are removed, or have a neighbour."""
    manifest = copy.deepcopy(draw(st.sampled_from(SOURCES)))
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(list(ways(manifest))))
        inner: Any = manifest
        for step in way:
            inner = inner[step]
        old = inner[last]
        text = near(old).map(str) | st.text("0123456789+-.eE xd_٣\ud800", max_size=5) | st.sampled_from(ODD_TEXTS)
        odd = st.none() | st.booleans() | st.sampled_from(ODD_NUMBERS) | st.just([]) | st.just({})
        what = draw(st.sampled_from(["change", "change", "change", "remove", "add"]))
        if what == "change":
            inner[last] = draw(near(old) | text | odd | st.sampled_from(alike(old)))
        elif what == "remove":
            del inner[last]
        elif isinstance(inner, dict):
            inner["another"] = old
        else:
            inner.append(old)
    return manifest
