"""The metrics that the documents list are those that the pipeline has, no more and no fewer."""

import ast
import re
from pathlib import Path

from hushgram.schemas.records import REASONS
from hushgram.transforms.uploads import SHARDS
from hushgram.transforms.windowing import TIMINGS

ROOT = Path(__file__).parents[2]
PARTS = {"dead_letter.reason": set(REASONS), "pane.timing": set(TIMINGS.values())}
"""What the parts of a name can be that are filled in when it is counted."""


def names_of(name):
    """All names that an argument of `Metrics.counter` can have."""
    if isinstance(name, ast.Constant):
        return {name.value}
    texts = [{part.value} if isinstance(part, ast.Constant) else PARTS[ast.unparse(part.value)] for part in name.values]
    names = {""}
    for each in texts:
        names = {head + tail for head in names for tail in each}
    return names


def metrics_in_code():
    """(namespace, name, kind) of every call of `Metrics.counter` and `Metrics.distribution`."""
    found = set()
    for path in [*(ROOT / "transforms").rglob("*.py"), *(ROOT / "pipelines").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Metrics.counter", "Metrics.distribution"):
                namespace, name = node.args
                found |= {(namespace.value, each, node.func.attr) for each in names_of(name)}
    return found


def metrics_in_documents():
    page = (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
    table = page.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    for line in re.findall(r"^\| `.*$", table, re.MULTILINE):
        namespace, names, what = (cell.strip() for cell in line.strip("|").split("|"))
        [kind] = set(re.findall(r"\b(counter|distribution)s?\b", what))
        for name in re.findall(r"`(\w+)`", names):
            for reason in REASONS if "REASON" in name else [""]:
                yield namespace.strip("`"), name.replace("REASON", reason), kind


def test_documents_list_every_metric_by_its_name():
    listed = list(metrics_in_documents())
    assert len(listed) == len(set(listed))
    assert set(listed) == metrics_in_code()


def test_documents_say_in_how_many_shards_ids_are():
    assert f"ids held in each of {SHARDS} shards" in (ROOT / "docs" / "streaming.md").read_text(encoding="utf-8")
