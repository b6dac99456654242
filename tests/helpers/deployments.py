"""The content of the files of `deploy`: manifests, services, images, and the commands that they would run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
FLINK, COLLECTOR = (DEPLOY / name / "kubernetes" for name in ("flink", "collector"))
"""The folders of kustomizations."""
DOCKERFILES = sorted(DEPLOY.rglob("Dockerfile*"))
GUIDES = sorted(DEPLOY.rglob("*.md"))
BLOCK = re.compile(r"^```sh *(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def load_compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def load_manifests(folder: Path = FLINK) -> list[dict[str, Any]]:
    """All resources that a kustomization lists."""
    names = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [manifest for name in names for manifest in yaml.safe_load_all((folder / name).read_text())]


def select_manifests(kind: str, folder: Path = FLINK) -> list[dict[str, Any]]:
    return [manifest for manifest in load_manifests(folder) if manifest["kind"] == kind]


def load_collector() -> dict[str, Any]:
    """The specification of the collector's pod."""
    [deployment] = select_manifests("Deployment", COLLECTOR)
    return deployment["spec"]["template"]["spec"]


def load_pods() -> dict[str, dict[str, Any]]:
    """The specifications of pods, by what they are, as the operator puts their templates together."""
    [flink] = select_manifests("FlinkDeployment")
    [job] = select_manifests("Job")
    settings, common = flink["spec"]["flinkConfiguration"], flink["spec"]["podTemplate"]["spec"]
    by_name = settings.get("kubernetes.operator.pod-template.merge-arrays-by-name") == "true"
    task_manager = merge_templates(common, flink["spec"]["taskManager"]["podTemplate"]["spec"], by_name)
    return {"jobmanager": common, "taskmanager": task_manager, "submit": job["spec"]["template"]["spec"]}


def merge_templates(base: Any, over: Any, by_name: bool) -> Any:
    """Merges templates as the operator does: entries of a list are matched by name, or by default by position.

    >>> merge_templates([{"name": "flink"}], [{"name": "workers", "image": "i"}], by_name=True)
    [{'name': 'flink'}, {'name': 'workers', 'image': 'i'}]
    >>> merge_templates([{"name": "flink"}], [{"name": "workers", "image": "i"}], by_name=False)
    [{'name': 'workers', 'image': 'i'}]
    """
    if isinstance(base, dict) and isinstance(over, dict):
        common = {key: merge_templates(base[key], over[key], by_name) for key in base.keys() & over.keys()}
        return {**base, **over, **common}
    if isinstance(base, list) and isinstance(over, list):
        if by_name and all(isinstance(entry, dict) and "name" in entry for entry in base + over):
            names = {entry["name"]: entry for entry in base}
            for entry in over:
                names[entry["name"]] = merge_templates(names.get(entry["name"], {}), entry, by_name)
            return list(names.values())
        pairs = [merge_templates(*pair, by_name) for pair in zip(base, over, strict=False)]
        return pairs + base[len(over) :] + over[len(base) :]
    return over


def list_containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def find_images() -> Iterator[tuple[Path, str]]:
    """Every image that a file names."""
    for path in DOCKERFILES:
        for line in path.read_text().splitlines():
            if match := re.match(r"FROM (\S+)", line):
                yield path, match[1]
    for service in load_compose()["services"].values():
        yield DEPLOY / "compose.yaml", service["image"]
    [flink] = select_manifests("FlinkDeployment")
    yield FLINK / "flink.yaml", flink["spec"]["image"]
    for folder, pod in [(COLLECTOR, load_collector()), *((FLINK, pod) for pod in load_pods().values())]:
        for container in list_containers(pod):
            if "image" in container:
                yield folder, container["image"]


def read_blocks(guide: Path) -> list[tuple[str, str]]:
    """The shell's blocks of a guide, each with its mark."""
    return BLOCK.findall(guide.read_text())


def find_submissions() -> Iterator[tuple[str, list[str]]]:
    """Every `hushgram aggregate` and `hushgram stream` that a file would run, with the file's name."""
    yield "compose.yaml", load_compose()["services"]["submit"]["command"]
    yield "submit.yaml", load_pods()["submit"]["containers"][0]["args"]
    for guide in GUIDES:
        for _, commands in read_blocks(guide):
            for line in commands.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True) if "hushgram" in line else []
                for index, word in enumerate(words[:-1]):
                    if Path(word).name == "hushgram" and words[index + 1] in ("aggregate", "stream"):
                        yield str(guide.relative_to(ROOT)), words[index + 1 :]
