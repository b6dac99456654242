"""Grafana's dashboards: their panels, variables and queries, with the values that Grafana would put into them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.helpers.deployments import DEPLOY

FOLDER = DEPLOY / "grafana"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
VARIABLE = re.compile(r"\$\{(\w+)(?::(\w+))?\}|\$(\w+)")


def load_dashboard(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def list_targets(dashboard: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Every query, with the title of its panel."""
    return [(panel["title"], target) for panel in dashboard["panels"] for target in panel["targets"]]


def fill_in(query: str, values: Mapping[str, str | Sequence[str]]) -> str:
    """A query with the values of variables, as Grafana writes them: `sqlstring` quotes and lists them.

    >>> fill_in("x = ${a:sqlstring} AND y < $b", {"a": ["it's", "so"], "b": "3"})
    "x = 'it''s','so' AND y < 3"
    """

    def value(match: re.Match[str]) -> str:
        name, form = match[1] or match[3], match[2]
        chosen = values[name]
        if form == "sqlstring":
            parts = [chosen] if isinstance(chosen, str) else chosen
            return ",".join("'" + part.replace("'", "''") + "'" for part in parts)
        assert isinstance(chosen, str), f"{name} is a list, and has no form"
        return chosen

    return VARIABLE.sub(value, query)


def fill_in_times(query: str, start: str, end: str) -> str:
    """A query of SQL with Grafana's macro of the time range."""
    return re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 BETWEEN '{start}' AND '{end}'", query)
