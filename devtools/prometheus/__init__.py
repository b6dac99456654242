"""Prometheus' parser and engine of rules, built from source, to test alert rules with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from devtools.tools import install, need, run

VERSION = "0.305.0"
"""Of Prometheus as a library; as a program this is 3.5.0."""
PACKAGES = ("model/rulefmt", "promql/promqltest")


def rule_tester() -> Path:
    """The program, which is built on first use."""
    need("go")
    return install(f"prometheus-rules-{VERSION}", _build) / "rules.test"


def _build(target: Path) -> None:
    shutil.copy(Path(__file__).parent / "rules_test.go", target)
    run(["go", "-C", target, "mod", "init", "rules"])
    run(["go", "-C", target, "get", *(f"github.com/prometheus/prometheus/{name}@v{VERSION}" for name in PACKAGES)])
    run(["go", "-C", target, "test", "-c", "-o", "rules.test", "."])


def check_rules(rules: Path, script: Path) -> str:
    """Nothing if Prometheus reads the rules and all that the script says is true; else what it says is wrong."""
    environment = {**os.environ, "RULES": str(rules), "SCRIPT": str(script)}
    completed = subprocess.run([rule_tester()], env=environment, capture_output=True, text=True)
    return "" if completed.returncode == 0 else completed.stdout + completed.stderr
