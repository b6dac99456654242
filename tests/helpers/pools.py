"""Beam's own pool of Python workers, as its images have it: every worker is started by Beam's boot program."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from devtools.processes import HOST, Process, free_port, listening, stop


@contextmanager
def run_beam_pool(python: Path, boot: Path, folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Its address; workers run in the environment of an interpreter, and write into a folder."""
    script = folder / "boot"
    script.write_text(f'#!/bin/sh\ncd {folder}\nexec {boot} --semi_persist_dir={folder} "$@"\n')
    script.chmod(0o755)
    port = free_port()
    command = [python, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    variables = {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(folder),
        # Otherwise boot makes a virtual environment of its own, in a folder of the system.
        "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT": "1",
        **environment,
    }
    process = Process([*command, f"--container_executable={script}"], folder / "pool.log", variables)
    process.wait(lambda: listening(f"{HOST}:{port}"))
    try:
        yield f"{HOST}:{port}"
    finally:
        stop([process])
