"""The page as one file that needs neither a server nor a network."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from hushgram.pipelines.view.assets import SCRIPTS, asset, fill, plotly, script_hash
from hushgram.pipelines.view.result_index import ResultIndex

MOST_OTHERS = 24
"""Estimates of all groups but one that a file holds: each takes up to a second to make."""


def standalone_page(index: ResultIndex, title: str) -> Iterator[bytes]:
    """In pieces: what is looked at first comes first, then the scripts that draw it, then everything else.

    A browser runs the scripts when it has come to them, so that the first picture need not wait for the rest of a large
    file. Data is base64, in which no character means anything to HTML.
    """
    outline = index.outline()
    first = [chunk for collection in outline["collections"][:1] for chunk in _shown_first(collection)]
    parts = [part for collection in outline["collections"] for part in collection["groups"] + collection["windows"]]
    texts = [plotly(), *map(asset, SCRIPTS)]
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(script_hash, texts))}",
            "style-src 'unsafe-inline'",  # the plotting library styles what it draws
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{asset("page.css")}</style>'
    data = "\n".join(
        [
            _data("outline", index.packed_outline()),
            *(_data(str(part), _chunk(index, outline["run"], part)) for part in first),
        ]
    )
    scripts = "\n".join(f"<script>{text}</script>" for text in texts)
    before, after = fill(title, head, data, scripts)
    yield before.encode()
    for part in parts:
        if part["id"] not in first:
            yield f"{_data(str(part['id']), _chunk(index, outline['run'], part['id']))}\n".encode()
    yield from (f"{_data(name, content)}\n".encode() for name, content in _from_tallies(index, outline))
    yield after.encode()


def _from_tallies(index: ResultIndex, outline: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Changes over time, and estimates of all groups but one; the page says which of them it does not have."""
    asked = [collection for collection in outline["collections"] if collection["tallied"]]
    for collection in asked:
        first = collection["groups"][0]["id"]
        if (changes := index.changes(outline["run"], first)) is not None:
            yield f"{first}/changes", changes
    for window, group in islice(_others(asked), MOST_OTHERS):
        if (estimate := index.others(outline["run"], window, group)) is not None:
            yield f"{window}/others/{group}", estimate


def _others(collections: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Windows, the newest of each collection first, and groups whose others are more than one."""
    for collection in collections:
        groups = [group["id"] for group in collection["groups"] if group["name"] is not None]
        if len(groups) > 2:
            yield from ((window["id"], group) for window in reversed(collection["windows"]) for group in groups)


def _shown_first(collection: dict[str, Any]) -> list[int]:
    """All groups together, and the window that the page opens on."""
    return [collection["groups"][0]["id"], collection["opens_at"]]


def _chunk(index: ResultIndex, run: str, chunk_id: int) -> bytes:
    chunk = index.chunk(run, chunk_id)
    assert chunk is not None, chunk_id
    return chunk


def _data(name: str, content: bytes) -> str:
    return f'<script type="text/plain" id="data-{name}">{base64.b64encode(content).decode()}</script>'
