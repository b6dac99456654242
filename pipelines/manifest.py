"""`hushgram manifest`: what devices need of a collection, as JSON; docs/clients.md says what a client does with it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from hushgram.pipelines.cli.console import chosen_collection, command_parser, say

EXAMPLE = "hushgram manifest --collections collections.yaml --collection commute > commute.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--collections", required=True, metavar="FILE", help="the YAML file of collections")
    parser.add_argument("--collection", metavar="NAME", help="which of them (default: the only one)")


def run(argv: Sequence[str]) -> int:
    parser = command_parser("manifest", __doc__, EXAMPLE)
    add_arguments(parser)
    options = parser.parse_args(argv)
    collection = chosen_collection(options.collections, options.collection)
    say(json.dumps(collection.manifest(), ensure_ascii=False, indent=2))
    return 0
