"""Collections from a YAML file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from hushgram import _validation
from hushgram._validation import CollectionError, describe, refuse, suggest
from hushgram.collection import FIELDS, Collection
from hushgram.device import Budget, Device
from hushgram.mechanisms import mechanism_options
from hushgram.windows import Windows

LARGEST_FILE = 1 << 20
DOMAIN_KEYS = ("low", "high", "unit", "scale", "integer")


def load_collections(source: str | Path) -> dict[str, Collection]:
    """The collections of a YAML file, by name; any fault raises a `CollectionError` that names its place."""
    try:
        with Path(source).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise CollectionError(f"{source}: more than {LARGEST_FILE} bytes, the limit")
        text = content.decode("utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, CollectionError):
            raise
        raise CollectionError(f"{source}: cannot be read: {error}") from None
    try:
        return parse_collections(text)
    except CollectionError as error:
        raise CollectionError(f"{source}: {error}") from None


def parse_collections(text: str) -> dict[str, Collection]:
    """The collections of a YAML text, by name.

    >>> text = "collections: {age: {domain: {low: 0, high: 127, integer: true}, buckets: 128, epsilon: 2}}"
    >>> parse_collections(text)["age"].mechanism.name
    'square_wave'
    """
    from hushgram.bounded_yaml import read_yaml  # only here: a device needs no YAML

    content = read_yaml(text)
    if not isinstance(content, Mapping) or set(content) not in ({"collections"}, {"collections", "device"}):
        raise CollectionError(
            f"got {_found(content)}, allowed: one entry, collections, that maps names to collections, "
            "and beside it device, a budget over all of them"
        )
    entries = content["collections"]
    if not isinstance(entries, Mapping):
        refuse("collections", entries, "a mapping of names to collections, such as {commute: {domain: …, epsilon: 1}}")
    if not entries:
        raise CollectionError("collections: got none, allowed: at least one")
    total = Budget.parse(content["device"]) if "device" in content else None
    return {name: _collection(name, entry, total) for name, entry in entries.items()}


def collection_keys() -> tuple[str, ...]:
    """The keys of a collection in a file: its domain, its other fields, and the options of mechanisms."""
    own = (name for name in FIELDS if name not in (*DOMAIN_KEYS, "name"))
    return ("domain", *own, *mechanism_options())


def _found(content: object) -> str:
    if content is None:
        return "an empty file"
    if not isinstance(content, Mapping):
        return f"a file that holds {describe(content)}"
    return f"the entries {', '.join(map(_validation.describe_key, islice(content, 10)))}"


def _collection(name: object, entry: object, total: Budget | None) -> Collection:
    _validation.check_label("name of a collection", name)
    try:
        if not isinstance(entry, Mapping):
            refuse("collection", entry, "a mapping with domain, epsilon and more")
        for key in entry:
            if key in DOMAIN_KEYS:
                raise CollectionError(
                    f"{key}: belongs into domain, such as domain: {{low: 0, high: 180, unit: minutes}}"
                )
        _known_keys("", entry, collection_keys())
        parameters: dict[str, Any] = dict(entry)
        if "domain" not in parameters:
            raise CollectionError("domain: missing, allowed: a mapping such as {low: 0, high: 180, unit: minutes}")
        domain = parameters.pop("domain")
        if not isinstance(domain, Mapping):
            refuse("domain", domain, "a mapping such as {low: 0, high: 180, unit: minutes}")
        _known_keys("domain.", domain, DOMAIN_KEYS)
        for where, mapping, required in (("domain.", domain, ("low", "high")), ("", parameters, ("epsilon",))):
            for key in required:
                if key not in mapping:
                    raise CollectionError(f"{where}{key}: missing, allowed: a number")
        if "windows" in parameters:
            parameters["windows"] = Windows.parse(parameters["windows"])
        if "device" in parameters:
            parameters["device"] = replace(Device.parse(parameters["device"]), total=total)
        elif total is not None:  # which is then all that one of the collections may spend, too
            parameters["device"] = Device(total.epsilon, total.every, total=total)
    except CollectionError as error:
        raise CollectionError(f"collection {name!r}: {error}") from None
    return Collection(name=str(name), **domain, **parameters)


def _known_keys(where: str, entry: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    for key in entry:
        if key not in known:
            raise CollectionError(
                f"{where}{_validation.describe_key(key)}: unknown, allowed: {', '.join(known)}{suggest(key, known)}"
            )
