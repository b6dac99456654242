"""The metadata of the templates' parameters for Dataflow, generated from the commands' options.

`python -m deploy.dataflow.metadata` writes it anew, beside this file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from deploy.dataflow.main import COMMANDS, may_be_repeated, options_of
from hushgram.pipelines.cli.command import COMMANDS as DESCRIPTIONS

HERE = Path(__file__).parent


def metadata(name: str) -> dict[str, Any]:
    """The metadata file of one command's template."""
    streaming = name == "stream"
    return {
        "name": f"hushgram {name}",
        "description": f"{DESCRIPTIONS[name].capitalize()}.",
        **({"streaming": True, "supportsAtLeastOnce": False, "supportsExactlyOnce": True} if streaming else {}),
        "parameters": [_parameter(parameter, option) for parameter, option in options_of(name).items()],
    }


def _parameter(name: str, option: argparse.Action) -> dict[str, Any]:
    several = "; several with a space between them" if may_be_repeated(option) else ""
    parameter: dict[str, Any] = {
        "name": name,
        "label": name.replace("_", " ").capitalize(),
        "helpText": f"{(option.help or '').replace('; may be repeated', '')}{several}",
        "isOptional": not option.required,
    }
    if option.choices:
        parameter["regexes"] = [f"^({'|'.join(option.choices)})$"]
    elif option.type is int:
        parameter["regexes"] = ["^[0-9]+$"]
    return parameter


def text(name: str) -> str:
    return json.dumps(metadata(name), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in COMMANDS:
        (HERE / f"{each}.json").write_text(text(each), encoding="utf-8")
        print(HERE / f"{each}.json")
