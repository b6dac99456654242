"""Collections from a YAML file."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from hushgram import checks
from hushgram.checks import CollectionError, hint, refuse, shown
from hushgram.collection import FIELDS, Collection
from hushgram.windows import Windows

LARGEST_FILE = 1 << 20
DOMAIN_KEYS = ("low", "high", "unit", "scale", "integer")
COLLECTION_KEYS = ("domain", *(name for name in FIELDS if name not in (*DOMAIN_KEYS, "name")))


def load_collections(source: str | Path) -> dict[str, Collection]:
    """The collections of a YAML file, by name; whatever is wrong in it ends in a `CollectionError` that says where."""
    try:
        with Path(source).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise CollectionError(f"{source}: more than {LARGEST_FILE} bytes, allowed: at most so many")
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
    >>> parse_collections(text)["age"].mechanism
    'square_wave'
    """
    content = _read_yaml(text)
    entries = content.get("collections") if isinstance(content, Mapping) and len(content) == 1 else None
    if not isinstance(entries, Mapping):
        raise CollectionError("the file must have one entry, collections, that maps names to collections")
    if not entries:
        raise CollectionError("collections: got none, allowed: at least one")
    return {name: _collection(name, entry) for name, entry in entries.items()}


def _collection(name: object, entry: object) -> Collection:
    checks.label("name of a collection", name)
    try:
        if not isinstance(entry, Mapping):
            refuse("collection", entry, "a mapping with domain, epsilon and more")
        _known_keys("", entry, COLLECTION_KEYS)
        given: dict[str, Any] = dict(entry)
        domain = given.pop("domain", None)
        if not isinstance(domain, Mapping):
            refuse("domain", domain, "a mapping such as {low: 0, high: 180, unit: minutes}")
        _known_keys("domain.", domain, DOMAIN_KEYS)
        for where, mapping, required in (("domain.", domain, ("low", "high")), ("", given, ("epsilon",))):
            for key in required:
                if key not in mapping:
                    raise CollectionError(f"{where}{key}: missing")
        if "windows" in given:
            given["windows"] = Windows.parse(given["windows"])
    except CollectionError as error:
        raise CollectionError(f"collection {name!r}: {error}") from None
    return Collection(name=str(name), **domain, **given)


def _known_keys(where: str, given: Mapping[Any, Any], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            raise CollectionError(f"{where}{checks.key(key)}: unknown, allowed: {', '.join(known)}{hint(key, known)}")


def _read_yaml(text: str) -> object:
    import yaml  # only here: a device needs no YAML

    class Loader(yaml.SafeLoader):
        """YAML lets a later entry of the same name win in silence; a configuration should not."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            own = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            seen: set[Hashable] = set()
            for key_node in own:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, Hashable):  # others are refused below
                    if key in seen:
                        raise CollectionError(f"line {key_node.start_mark.line + 1}: {shown(key)} stands twice")
                    seen.add(key)
            return super().construct_mapping(node, deep)

    # YAML 1.1 reads 1e-3 as a text, for want of a dot; people mean the number.
    exponent = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", exponent, list("-+0123456789"))
    try:
        return yaml.load(text, Loader)
    except CollectionError:
        raise
    except RecursionError:
        raise CollectionError("not valid YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        # PyYAML lets what its own constructors stumble over through as it comes: dates that are none, tags that lie.
        raise CollectionError(f"not valid YAML: {' '.join(str(error).split())}") from None
