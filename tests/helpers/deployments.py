"""What the files of `deploy` say, read back: manifests, services, images, and the commands that they would run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = sorted(DEPLOY.rglob("Dockerfile*"))
GUIDES = sorted(DEPLOY.rglob("*.md"))
BLOCK = re.compile(r"^```sh *(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def manifests() -> list[dict[str, Any]]:
    """All resources that the kustomization lists."""
    folder = DEPLOY / "flink" / "kubernetes"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [part for name in listed for part in yaml.safe_load_all((folder / name).read_text())]


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests() if each["kind"] == kind]


def pods() -> dict[str, dict[str, Any]]:
    """The specifications of pods, by what they are, as the operator puts their templates together."""
    [flink] = of_kind("FlinkDeployment")
    [job] = of_kind("Job")
    settings, common = flink["spec"]["flinkConfiguration"], flink["spec"]["podTemplate"]["spec"]
    by_name = settings.get("kubernetes.operator.pod-template.merge-arrays-by-name") == "true"
    together = merged(common, flink["spec"]["taskManager"]["podTemplate"]["spec"], by_name)
    return {"jobmanager": common, "taskmanager": together, "submit": job["spec"]["template"]["spec"]}


def merged(base: Any, over: Any, by_name: bool) -> Any:
    """Templates in the operator's way: what is in a list goes together by its name or, unless it is told, its place.

    >>> merged([{"name": "flink"}], [{"name": "workers", "image": "i"}], by_name=True)
    [{'name': 'flink'}, {'name': 'workers', 'image': 'i'}]
    >>> merged([{"name": "flink"}], [{"name": "workers", "image": "i"}], by_name=False)
    [{'name': 'workers', 'image': 'i'}]
    """
    if isinstance(base, dict) and isinstance(over, dict):
        both = {key: merged(base[key], over[key], by_name) for key in base.keys() & over.keys()}
        return {**base, **over, **both}
    if isinstance(base, list) and isinstance(over, list):
        if by_name and all(isinstance(part, dict) and "name" in part for part in base + over):
            names = {part["name"]: part for part in base}
            for part in over:
                names[part["name"]] = merged(names.get(part["name"], {}), part, by_name)
            return list(names.values())
        pairs = [merged(*pair, by_name) for pair in zip(base, over, strict=False)]
        return pairs + base[len(over) :] + over[len(base) :]
    return over


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def images() -> Iterator[tuple[Path, str]]:
    """Every image that a file names."""
    for path in DOCKERFILES:
        for line in path.read_text().splitlines():
            if match := re.match(r"FROM (\S+)", line):
                yield path, match[1]
    for service in compose()["services"].values():
        yield DEPLOY / "compose.yaml", service["image"]
    [flink] = of_kind("FlinkDeployment")
    yield DEPLOY / "flink" / "kubernetes" / "flink.yaml", flink["spec"]["image"]
    for pod in pods().values():
        for container in containers(pod):
            if "image" in container:
                yield DEPLOY / "flink" / "kubernetes", container["image"]


def blocks(guide: Path) -> list[tuple[str, str]]:
    """The shell's blocks of a guide, each with its mark."""
    return BLOCK.findall(guide.read_text())


def submissions() -> Iterator[tuple[str, list[str]]]:
    """Every `hushgram aggregate` and `hushgram stream` that a file would run, with the file's name."""
    yield "compose.yaml", compose()["services"]["submit"]["command"]
    yield "submit.yaml", pods()["submit"]["containers"][0]["args"]
    for guide in GUIDES:
        for _, commands in blocks(guide):
            for line in commands.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True) if "hushgram" in line else []
                for place, word in enumerate(words[:-1]):
                    if Path(word).name == "hushgram" and words[place + 1] in ("aggregate", "stream"):
                        yield str(guide.relative_to(ROOT)), words[place + 1 :]
