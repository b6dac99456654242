"""Collections from a YAML file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushgram import checks
from hushgram.checks import CollectionError, hint, refuse
from hushgram.collection import FIELDS, Collection
from hushgram.windows import Windows

LARGEST_FILE = 1 << 20
DOMAIN_KEYS = ("low", "high", "unit", "scale", "integer")
COLLECTION_KEYS = ("domain", *(name for name in FIELDS if name not in (*DOMAIN_KEYS, "name")))


def load_collections(source: str | Path) -> dict[str, Collection]:
    """The collections of a YAML file, by name; whatever is wrong in it ends in a `CollectionError` that says where."""
    path = Path(source)
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise CollectionError(f"{path}: {size} bytes, allowed: at most {LARGEST_FILE}")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"{path}: cannot be read: {error}") from None
    try:
        return parse_collections(text)
    except CollectionError as error:
        raise CollectionError(f"{path}: {error}") from None


def parse_collections(text: str) -> dict[str, Collection]:
    """The collections of a YAML text, by name.

    >>> text = "collections: {age: {domain: {low: 0, high: 127, integer: true}, buckets: 128, epsilon: 2}}"
    >>> parse_collections(text)["age"].mechanism
    'square_wave'
    """
    content = _read_yaml(text)
    if (
        not isinstance(content, Mapping)
        or list(content) != ["collections"]
        or not isinstance(content["collections"], Mapping)
    ):
        raise CollectionError("the file must have one entry, collections, that maps names to collections")
    if not content["collections"]:
        raise CollectionError("collections: got none, allowed: at least one")
    return {name: _collection(name, entry) for name, entry in content["collections"].items()}


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
            raise CollectionError(f"{where}{key}: unknown, allowed: {', '.join(known)}{hint(key, known)}")


def _read_yaml(text: str) -> object:
    import yaml  # only here: a device needs no YAML

    class Loader(yaml.SafeLoader):
        """YAML lets a later entry of the same name win in silence; a configuration should not."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for index, key in enumerate(keys):
                if key in keys[:index]:
                    raise CollectionError(f"line {node.start_mark.line + 1}: {key!r} stands twice")
            return super().construct_mapping(node, deep)

    # YAML 1.1 reads 1e-3 as a text, for want of a dot; people mean the number.
    exponent = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", exponent, list("-+0123456789"))
    try:
        return yaml.load(text, Loader)
    except yaml.YAMLError as error:
        raise CollectionError(f"not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise CollectionError("not valid YAML: nested too deeply") from None
