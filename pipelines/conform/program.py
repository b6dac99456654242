"""A client under test: a program that answers lines of JSON, and is trusted with neither time nor memory."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Self

from hushgram._validation import describe

LARGEST_ANSWER = 1 << 24
"""Bytes of one answer, and of all that a client prints without being asked."""
LONGEST_COMPLAINT = 2000
CHUNK = 1 << 16
PATIENCE = 5.0
"""Seconds in which a client may end by itself once its input has."""


class ProgramError(Exception):
    """A program that does not answer as a client does: what it did instead."""


class Program:
    """A started client. Whatever it does, an answer or a `ProgramError` comes in bounded time and memory.

    It has a session of its own, so that all it started ends with it.
    """

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self.command, self.seconds = list(command), seconds

    def __enter__(self) -> Self:
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ProgramError(f"cannot be started: {error}") from None
        self._complaint = b""
        self._requests: queue.Queue[bytes | None] = queue.Queue()
        self._answers: queue.Queue[bytes | None] = queue.Queue()
        self._threads = [
            threading.Thread(target=work, args=(pipe,), daemon=True)
            for work, pipe in (
                (self._write, self._process.stdin),
                (self._read, self._process.stdout),
                (self._listen, self._process.stderr),
            )
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._requests.put(None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.0 if raised[0] else PATIENCE)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join(PATIENCE)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        if not self._answers.empty():
            raise ProgramError(self._told("printed a line that it was not asked for, or ended"))
        self._requests.put(json.dumps(request).encode() + b"\n")
        try:
            line = self._answers.get(timeout=self.seconds)
        except queue.Empty:
            raise ProgramError(self._told(f"did not answer within {self.seconds:g} s")) from None
        if line is None:
            raise ProgramError(self._told(self._ending()))
        try:
            answer = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            shown = describe(line.decode("utf-8", "replace"))
            raise ProgramError(self._told(f"answered with what is no JSON: {shown}")) from None
        if not isinstance(answer, dict):
            raise ProgramError(self._told(f"answered with {describe(answer)}, allowed: a JSON object"))
        return answer

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            return f"ended with exit code {self._process.wait(PATIENCE)} instead of an answer"
        return f"closed its output, or printed more than {LARGEST_ANSWER} bytes, instead of an answer"

    def _told(self, what: str) -> str:
        said = " ".join(self._complaint.decode("utf-8", "replace").split())[-300:]
        return f"{what}; it said: {said}" if said else what

    # One thread for each pipe, so that none can make the others wait -------------------------------------------------

    def _write(self, pipe: IO[bytes]) -> None:
        with suppress(OSError):
            while (request := self._requests.get()) is not None:
                pipe.write(request)
                pipe.flush()
        with suppress(OSError):
            pipe.close()

    def _read(self, pipe: IO[bytes]) -> None:
        started, unread = bytearray(), 0  # of a line that has begun; of lines that nobody has taken
        with suppress(OSError, ValueError):
            while chunk := os.read(pipe.fileno(), CHUNK):
                started += chunk
                if b"\n" in chunk:
                    *lines, rest = bytes(started).split(b"\n")
                    started = bytearray(rest)
                    for line in lines:
                        self._answers.put(line)
                unread = unread + len(chunk) if self._answers.qsize() > 1 else 0
                if len(started) + unread > LARGEST_ANSWER:
                    break
        self._answers.put(None)

    def _listen(self, pipe: IO[bytes]) -> None:
        with suppress(OSError, ValueError):
            while chunk := os.read(pipe.fileno(), CHUNK):
                self._complaint = (self._complaint + chunk)[-LONGEST_COMPLAINT:]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
