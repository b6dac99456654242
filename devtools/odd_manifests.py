"""Manifests that are not as `hushgram manifest` writes them: those that clients refuse, and those they accept."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hushgram import Collection
from hushgram.device import Device

Json = dict[str, Any]

DAY = 86_400_000
CHANNEL: list[str | int] = ["law", "channels", 0]


def refused_manifests() -> Iterator[tuple[str, Json]]:
    """Each with what is wrong with it."""
    yield from _other_promises()
    yield from _other_laws()
    yield from _other_places()
    yield from _other_devices()
    yield from _other_names()
    yield from _odd_texts()
    yield from _odd_types()
    yield from _missing_and_unknown_entries()


def accepted_manifests() -> Iterator[tuple[str, Collection, Json]]:
    """Each with what is odd about it, and the collection whose reports its reports are."""
    collection = _collection(groups=["DE", "😀" * 128])
    wave = collection.manifest()
    yield (
        "whole numbers that are written as others",
        collection,
        change(
            wave,
            (["slice_ms"], 3_600_000.0),
            (["slice_first_ms"], -0.0),
            (["device", "cost"], 1e9),
            (["locate", "steps"], 4.0),
        ),
    )
    yield "the largest whole numbers", collection, change(wave, (["max_age_ms"], (1 << 53) - 1))
    yield "further entries of the manifest", collection, {**wave, "comment": [{"law": None}], "Law": 1.5}
    shared = _collection(mechanism="hierarchy")
    yield "a share where there is one channel", shared, shared.manifest()
    yield (
        "real numbers with more digits than they need",
        collection,
        change(wave, (["domain", "high"], "0180.0000e+00")),
    )


# Manifests to change --------------------------------------------------------------------------------------------------


def _collection(**changes: Any) -> Collection:
    return Collection(**{"name": "c", "low": 0, "high": 180, "epsilon": 1.0, "buckets": 4, **changes})


def _manifest(mechanism: str, **changes: Any) -> Json:
    return _collection(low=1, mechanism=mechanism, **changes).manifest()


def _wave() -> Json:
    return _collection(device=Device(2.0, 7 * DAY, 2)).manifest()


def _log() -> Json:
    return _collection(low=1, scale="log").manifest()


def _knots(*knots: str, **changes: Any) -> Json:
    """A log scale of waves, with few knots."""
    wave = _manifest("general_wave", buckets=64, scale="log")
    return {**wave, "locate": {**wave["locate"], "knots": list(knots), **changes}}


def change(manifest: Json, *places: tuple[Sequence[str | int], object]) -> Json:
    """The manifest with other values at these places."""
    changed = copy.deepcopy(manifest)
    for path, value in places:
        *way, last = path
        inner: Any = changed
        for step in way:
            inner = inner[step]
        inner[last] = value
    return changed


def _weighed(manifest: Json, **integers: int) -> Json:
    """Other integers of the first channel, with the total that belongs to them."""
    law = {name: int(manifest["law"]["channels"][0][name]) for name in ("P", "Q", "width", "others")} | integers
    total = law["width"] * law["P"] + law["others"] * law["Q"]
    named = {**law, "total": total}
    return change(manifest, *[([*CHANNEL, name], str(value)) for name, value in named.items()])


# Refused --------------------------------------------------------------------------------------------------------------


def _other_promises() -> Iterator[tuple[str, Json]]:
    wave = _wave()
    first: Mapping[str, str] = wave["law"]["channels"][0]
    P, Q = int(first["P"]), int(first["Q"])
    yield "another version", change(wave, (["format"], "hushgram-manifest/2"))
    yield "an unknown mechanism", change(wave, (["mechanism"], "laplace"))
    yield "another schema", change(wave, (["schemas", "Report"], "00" * 8))
    yield "the favoured weight one more than e^ε allows", _weighed(wave, P=P + 1)
    yield "the favoured weight squared", _weighed(wave, P=P * P // Q)
    yield "the other weight one less", _weighed(wave, Q=Q - 1)
    yield "no other weight", _weighed(wave, Q=0)
    yield "ε declared a little smaller than the law's", change(wave, (["device", "epsilon"], "0.9999999999"))
    yield "ε of zero", change(wave, (["device", "epsilon"], "0.0"))
    yield "ε without bound", change(wave, (["device", "epsilon"], "1e300"))
    yield "a total that is not the sum", change(wave, ([*CHANNEL, "total"], str(int(first["total"]) + 1)))
    yield "a total of 64 bits", _weighed(wave, P=2 * 10**18, Q=11 * 10**17)


def _other_laws() -> Iterator[tuple[str, Json]]:
    wave, hashing, ramp = _wave(), _manifest("local_hashing"), _manifest("general_wave")
    too_many = (["law", "positions"], "5"), (["locate", "steps"], 5)
    yield "more positions than the law has room for", change(wave, *too_many)
    yield "positions that values do not reach", change(wave, (["locate", "steps"], 3))
    yield "cells that begin late", change(wave, ([*CHANNEL, "offset"], "1"))
    yield "more cells than channels have", change(wave, (["law", "cells"], "100"))
    yield "an unknown kind of channel", change(wave, ([*CHANNEL, "kind"], "laplace"))
    yield "a divisor of zero", change(wave, ([*CHANNEL, "divisor"], "0"))
    yield "shares for channels that are not there", change(wave, (["law", "shares"], ["1", "1"]))
    yield "no shares", change(wave, (["law", "shares"], []))
    yield "no channels", change(wave, (["law", "channels"], []))
    yield "rows that are no power of two", change(_manifest("haar"), ([*CHANNEL, "rows"], "3"))
    yield "too few functions", change(hashing, ([*CHANNEL, "digits"], "1"))
    yield "symbols that the law does not have", change(_manifest("seeded_hashing"), ([*CHANNEL, "symbols"], "5"))
    yield "more steps than a coin has", change(_manifest("stochastic_rounding"), ([*CHANNEL, "steps"], "1000"))
    yield "a ramp beyond the last cell", change(ramp, ([*CHANNEL, "ramp"], str(1 << 26)))
    yield "a step of zero", change(ramp, ([*CHANNEL, "step"], "0"))
    yield "a level that is never drawn", change(_manifest("hierarchy"), (["law", "shares"], ["0"]))
    first = ramp["law"]["channels"][0]
    all_outcomes = str(int(first["width"]) + int(first["others"]))
    yield "one cell for everything", change(ramp, ([*CHANNEL, "step"], all_outcomes), (["law", "cells"], "1"))
    alone = ([*CHANNEL, "divisor"], "4")
    yield (
        "no other outcomes",
        change(_weighed(wave, others=0), alone, (["law", "cells"], wave["law"]["channels"][0]["width"])),
    )
    symbols = hashing["law"]["channels"][0]["symbols"]
    no_digits = ([*CHANNEL, "digits"], "0"), ([*CHANNEL, "functions"], "1"), (["law", "cells"], symbols)
    yield "a hash of no digits", change(hashing, alone, *no_digits)


def _other_places() -> Iterator[tuple[str, Json]]:
    wave, log = _wave(), _log()
    edges = log["locate"]["edges"]
    yield "low above high", change(wave, (["domain", "low"], "200.0"))
    yield "an end that is no number", change(wave, (["domain", "high"], "NaN"))
    yield "a length of zero", change(wave, (["locate", "length"], "0.0"))
    yield "an unknown way to locate", change(wave, (["locate", "method"], "guess"))
    yield "an unknown way to round", change(wave, (["locate", "round"], "up"))
    yield "an unknown scale", change(wave, (["domain", "scale"], "cubic"))
    yield "edges that do not rise", change(log, (["locate", "edges", 1], edges[0]))
    yield "an edge that is no number", change(log, (["locate", "edges", 0], "Infinity"))
    yield "too few edges", change(log, (["locate", "edges"], edges[1:]))
    yield "edges too far apart", change(log, (["locate", "edges"], ["-1e308", "0.0", "1e308"]))
    steps = _knots()["locate"]["steps"]
    yield "knots too far apart", _knots("-1e308", "1e308")
    yield "a single knot", _knots("1.0")
    yield "knots that are rounded down", _knots("1.0", "180.0", steps=steps + 1, round="down")


def _other_devices() -> Iterator[tuple[str, Json]]:
    wave = _wave()
    yield "slices of no length", change(wave, (["slice_ms"], 0))
    yield "a first slice before 1970", change(wave, (["slice_first_ms"], -1))
    yield "an age of more than 2^53 - 1 milliseconds", change(wave, (["max_age_ms"], 1 << 53))
    yield "an age that doubles do not hold", change(wave, (["max_age_ms"], (1 << 53) + 1))
    yield "a report that costs less than its ε", change(wave, (["device", "cost"], 1000))
    yield "a period of no length", change(wave, (["device", "budget", "every_ms"], 0))
    yield "a period of more than ten years", change(wave, (["device", "budget", "every_ms"], 315_360_000_001))
    yield "more slots than are allowed", change(wave, (["device", "slots"], 10_001))
    yield "a budget that is no whole number", change(wave, (["device", "budget", "amount"], 0.5))
    yield "slots without a budget", change(wave, (["device", "budget"], None))


def _other_names() -> Iterator[tuple[str, Json]]:
    wave = _wave()
    yield "a revision that is too short", change(wave, (["revision"], "00"))
    yield "a revision that is no hexadecimal digits", change(wave, (["revision"], "0123456789abcdeg"))
    yield "a revision with spaces", change(wave, (["revision"], "01 34 67 9abcdef"))
    yield "a revision in capitals", change(wave, (["revision"], "0123456789ABCDEF"))
    yield "a group that is listed twice", change(wave, (["groups"], ["DE", "FR", "DE"]))
    yield "a group without a name", change(wave, (["groups"], [""]))
    yield "a group of 129 characters", change(wave, (["groups"], ["g" * 129]))
    yield "half of a surrogate pair in a group", change(wave, (["groups"], ["\ud800"]))
    yield "a group that was not UTF-8", change(wave, (["groups"], ["\ufffd"]))
    yield "a collection without a name", change(wave, (["collection"], ""))


def _odd_texts() -> Iterator[tuple[str, Json]]:
    """Numbers that some languages read, and others do not."""
    wave = _wave()
    P = wave["law"]["channels"][0]["P"]
    for name, text in (
        *(("a leading zero", f"0{P}"), ("a space", f" {P}"), ("a line break at its end", f"{P}\n")),
        *(("an underscore", f"{P[0]}_{P[1:]}"), ("digits of another script", P.translate(_FULL_WIDTH))),
    ):
        yield f"a number with {name}", change(wave, ([*CHANNEL, "P"], text))
    yield "a number with a sign", change(wave, ([*CHANNEL, "others"], "+3"))
    yield "an offset with a leading zero", change(wave, ([*CHANNEL, "offset"], "00"))
    for name, text in (
        *(("a space", " 180.0"), ("a line break at its end", "180.0\n"), ("an underscore", "1_80.0")),
        *(("a sign that it does not need", "+180.0"), ("a capital", "1.8E2"), ("no digit after its point", "180.")),
        *(("hexadecimal digits", "0xb4"), ("a suffix", "180.0d"), ("33 characters", f"180.{'0' * 29}")),
        *(("a comma", "180,0"), ("digits of another script", "180.0".translate(_FULL_WIDTH)), ("no digits", "")),
    ):
        yield f"a real number with {name}", change(wave, (["domain", "high"], text))
    yield "a real number with no digit before its point", change(wave, (["locate", "start"], ".0"))


_FULL_WIDTH = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}


def _odd_types() -> Iterator[tuple[str, Json]]:
    """Values that some languages take for others."""
    wave = _wave()
    P = int(wave["law"]["channels"][0]["P"])
    schemas = {name: [fingerprint] for name, fingerprint in wave["schemas"].items()}
    joined = ",".join(("Report", wave["schemas"]["Report"], "ReportBatch"))
    for name, path, value in (
        *(
            ("a number that is no text", [*CHANNEL, "P"], P),
            ("a real number that is no text", ["domain", "high"], 180.0),
        ),
        *(("a number for a truth", ["locate", "whole"], 0), ("text for a truth", ["domain", "integer"], "false")),
        *(("a truth for a number", ["device", "slots"], True), ("text for a whole number", ["slice_ms"], "3600000")),
        *(("null for a whole number", ["max_age_ms"], None), ("a list for a kind", [*CHANNEL, "kind"], ["block"])),
        *(("a list for a method", ["locate", "method"], ["scale"]), ("lists for fingerprints", ["schemas"], schemas)),
        *(("text for groups", ["groups"], "DE"), ("an object for groups", ["groups"], {"DE": "DE"})),
        *(("text for shares", ["law", "shares"], "1"), ("an object for channels", ["law", "channels"], {})),
        *(("a list for a law", ["law"], list(wave["law"])), ("a list for a device", ["device"], [])),
        ("fingerprints in one name", ["schemas"], {joined: wave["schemas"]["ReportBatch"]}),
    ):
        yield name, change(wave, (path, value))
    yield "a list for a method with knots", _knots("1.0", "180.0", method=["knots"])
    yield "text for edges", change(_log(), (["locate", "edges"], "258"))


def _missing_and_unknown_entries() -> Iterator[tuple[str, Json]]:
    """Only the manifest itself may have entries that are not known."""
    wave = _wave()
    yield "an unknown entry in a channel", change(wave, ([*CHANNEL, "bias"], "1"))
    for name in ("law", "locate", "domain", "device", "schemas"):
        yield f"an unknown entry in {name}", change(wave, ([name, "another"], None))
    yield "an unknown entry in a budget", change(wave, (["device", "budget", "another"], None))
    for name in ("law", "locate", "device", "groups", "domain"):
        yield f"no {name}", _without(wave, name)
    yield "no scale", {**wave, "domain": _without(wave["domain"], "scale")}
    yield "no total", {**wave, "device": _without(wave["device"], "total")}


def _without(mapping: Json, name: str) -> Json:
    return {key: value for key, value in mapping.items() if key != name}
