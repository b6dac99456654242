"""The manifests of the collections, as devices fetch them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from hushgram import Collection


@dataclass(frozen=True)
class Manifest:
    """The bytes of one, and the tag by which a device knows that it has it already."""

    body: bytes
    tag: str

    def matches(self, header: str) -> bool:
        """Whether `If-None-Match` names it.

        >>> Manifest(b"{}", '"44"').matches('"33", W/"44"')
        True
        """
        tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
        return self.tag in tags or "*" in tags


def manifests(collections: Iterable[Collection]) -> dict[str, Manifest]:
    """By collection."""
    return {collection.name: _manifest(collection) for collection in collections}


def _manifest(collection: Collection) -> Manifest:
    body = json.dumps(collection.manifest(), ensure_ascii=False, indent=2).encode()
    return Manifest(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
