"""What workers install beside a staged source package.

Beam's `--setup_file` stages the project's source, and workers install it without extras; but what Beam needs is one.
So the requirements of the extras are staged too, as the requirements file that workers install first.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions
from packaging.requirements import Requirement

from hushgram.pipelines.cli.console import UsageError

MODULES = {
    "beam": "apache_beam",
    "kafka": "confluent_kafka",
    "postgresql": "psycopg",
    "iceberg": "pyiceberg",
    "prometheus": "prometheus_client",
}
"""Extras whose code runs on workers, each with the module that shows that it is installed here."""
PATH_OPTION = re.compile(r"\s*(?:(-[rcf])|(--requirement|--constraint|--find-links)(?=[\s=]))[\s=]*(?P<path>.+)")
"""A line of a requirements file that names another file, or a folder of packages."""


@contextmanager
def staged_requirements(options: PipelineOptions) -> Iterator[None]:
    """While a job is submitted with `--setup_file`, its requirements file has the user's lines, if any, and ours."""
    setup = options.view_as(SetupOptions)
    if not setup.setup_file:
        yield
        return
    before = setup.requirements_file, setup.requirements_cache
    with tempfile.NamedTemporaryFile("w", prefix="hushgram-", suffix=".txt") as file:
        file.write("\n".join([*requirement_lines(before[0]), *worker_requirements(), ""]))
        file.flush()
        setup.requirements_file = file.name
        if before == (None, None):
            setup.requirements_cache = "skip"  # workers ask the index, as they do for the source package's own needs
        try:
            yield
        finally:
            setup.requirements_file, setup.requirements_cache = before


def worker_requirements() -> list[str]:
    """The requirements of the extras that run on workers, as far as they are installed here.

    >>> any(line.startswith("polars>=") for line in worker_requirements())
    True
    """
    extras = [extra for extra, module in MODULES.items() if find_spec(module)]
    requirements = [Requirement(text) for text in metadata.requires("hushgram") or ()]
    lines = set()
    for requirement in requirements:
        marker, requirement.marker = requirement.marker, None
        if marker and any(marker.evaluate({"extra": extra}) for extra in extras):
            lines.add(str(requirement))
    return sorted(lines)


def requirement_lines(path: str | None) -> list[str]:
    """The lines of a requirements file, fit for a file in another folder."""
    if path is None:
        return []
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--requirements_file: {path}: {error}") from None
    folder = os.path.dirname(os.path.abspath(path))
    return [with_absolute_paths(line, folder) for line in lines]


def with_absolute_paths(line: str, folder: str) -> str:
    """A line of a requirements file in a folder; what it includes is found from any other folder, too.

    >>> with_absolute_paths("-r other.txt", "/home/job"), with_absolute_paths("numpy", "/home/job")
    ('-r /home/job/other.txt', 'numpy')
    """
    found = PATH_OPTION.fullmatch(re.sub(r"(^|\s+)#.*", "", line))
    if found is None:
        return line
    option = found[1] or found[2]
    try:
        [path] = shlex.split(found["path"])
    except ValueError:  # several, or a quote without an end: pip says what is wrong
        return line
    absolute = os.path.normpath(os.path.join(folder, path))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", path) or absolute == path:
        return line
    if option in ("-f", "--find-links") and not os.path.exists(absolute):
        return line  # of the working directory, then, as pip reads it
    return f"{option} {shlex.quote(absolute)}"
