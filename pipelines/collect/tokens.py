"""The tokens of those who may send, from a file: one to a line, so that an old and a new one can be good at once."""

from __future__ import annotations

import hashlib
import hmac
import os
import time

from hushgram.pipelines.collect.log import log_line
from hushgram.transforms.filesystem import read_text

REREAD_SECONDS = 5.0
SHORTEST = 16
"""Characters of a token: shorter ones can be guessed."""


class Tokens:
    """Reread when the file has changed, so that tokens are replaced without a restart. A file that cannot be read, or
    has no tokens, leaves those that were good before, and a line in the log."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._looked, self._version = time.monotonic(), self._stamp()
        self._digests = self._read()
        self._fault = ""

    def allow(self, header: bytes | None) -> bool:
        """Whether an Authorization header has one of the tokens; how long it takes does not tell which or how much."""
        self._refresh()
        scheme, _, token = (header or b"").partition(b" ")
        digest = hashlib.sha256(token.strip()).digest()
        found = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(found) and scheme.lower() == b"bearer"

    def _refresh(self) -> None:
        if time.monotonic() - self._looked < REREAD_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            version = self._stamp()
            if version != self._version:
                self._digests, self._version = self._read(), version
            fault = ""
        except (OSError, ValueError) as error:
            fault = f"{type(error).__name__}; the tokens from before stay good"
        if fault != self._fault:
            log_line(f"--token-file {self.path}: {fault or 'read again'}")
            self._fault = fault

    def _stamp(self) -> tuple[int, int, int]:
        found = os.stat(self.path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> list[bytes]:
        tokens = [line.strip() for line in read_text(self.path).splitlines() if line.strip()]
        if not tokens or min(map(len, tokens)) < SHORTEST:
            raise ValueError(f"allowed: one token to a line, each of {SHORTEST} characters at least")
        return [hashlib.sha256(token.encode()).digest() for token in tokens]
