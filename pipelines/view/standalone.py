"""The page as one file that needs neither a server nor a network."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from hushgram.pipelines.view.assets import SCRIPTS, asset, fill, plotly, script_hash
from hushgram.pipelines.view.result_index import ResultIndex


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
    yield after.encode()


def _shown_first(collection: dict[str, Any]) -> list[int]:
    """All groups together, and the window that the page opens on."""
    return [collection["groups"][0]["id"], collection["opens_at"]]


def _chunk(index: ResultIndex, run: str, chunk_id: int) -> bytes:
    chunk = index.chunk(run, chunk_id)
    assert chunk is not None, chunk_id
    return chunk


def _data(name: str, content: bytes) -> str:
    return f'<script type="text/plain" id="data-{name}">{base64.b64encode(content).decode()}</script>'
