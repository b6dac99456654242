"""YAML of a configuration, read with bounds on what a short text may become.

Aliases and merge keys let few bytes stand for many entries: ten anchors, each ten times the one before, are ten
billion. They are counted before anything is expanded. What a configuration of this project never needs, such as deep
nesting or texts of thousands of characters, is refused where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from hushgram._validation import CollectionError, describe

MOST_NODES = 1 << 20
"""Limit of keys, values and lists in a text, with each alias and merge key counted as all that it stands for."""
MOST_DEPTH = 32
LONGEST_SCALAR = 1000
MERGE_TAG = "tag:yaml.org,2002:merge"


def read_yaml(text: str) -> object:
    """The content of a YAML text in plain Python values; any fault raises a `CollectionError`."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_expansion(node)
        return loader.construct_document(node)
    except CollectionError:
        raise
    except RecursionError:  # a long chain of aliases
        raise CollectionError("not valid YAML: nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        # PyYAML does not catch what its own constructors raise, as for impossible dates and wrong tags.
        message = " ".join(str(error).replace('in "<unicode string>", ', "in ").split())
        raise CollectionError(f"not valid YAML: {message}") from None


class _Loader(yaml.SafeLoader):
    """Limits depth and length of texts, and refuses a repeated key, of which YAML would take the last."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_SCALAR:
            raise CollectionError(
                f"line {line}: got a text of {len(event.value):,} characters, allowed: at most {LONGEST_SCALAR:,}"
            )
        if self.depth == MOST_DEPTH:
            raise CollectionError(f"line {line}: nested too deeply, allowed: at most {MOST_DEPTH} levels")
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Hashable] = set()
        for key_node in [key for key, _ in node.value if key.tag != MERGE_TAG]:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):  # others are refused below
                if key in seen:
                    raise CollectionError(f"line {key_node.start_mark.line + 1}: {describe(key)} stands twice")
                seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads 1e-3 as a text, for want of a dot; people mean the number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _check_expansion(root: yaml.Node) -> None:
    """Refuses a text whose aliases and merge keys expand to too many entries.

    A node is visited once, however many aliases stand for it. These come after their anchor, so that the recursion is
    no deeper than the text.
    """
    sizes: dict[int, int] = {}
    above: set[int] = set()

    def size_of(node: yaml.Node) -> int:
        if id(node) in above:
            raise CollectionError(f"line {node.start_mark.line + 1}: an anchor that contains itself")
        if id(node) not in sizes:
            above.add(id(node))
            children = node.value if isinstance(node, yaml.CollectionNode) else ()
            if isinstance(node, yaml.MappingNode):
                children = [part for pair in node.value for part in pair]
            sizes[id(node)] = 1 + sum(map(size_of, children))
            above.remove(id(node))
        return sizes[id(node)]

    if size_of(root) > MOST_NODES:
        raise CollectionError(
            f"expands to more than {MOST_NODES:,} entries; use fewer aliases (*) and merge keys (<<) of long parts"
        )
