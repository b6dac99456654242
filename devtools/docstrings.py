"""An extension of mkdocstrings: examples that stand in a docstring as doctests become blocks of code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?P=indent)\S.*|\n(?P=indent) +\S.*)*", re.MULTILINE)


def fence_examples(docstring: str) -> str:
    """
    >>> fence_examples("One.\\n\\n>>> 1 + 1\\n2\\n\\nMore.")
    'One.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```\\n\\nMore.'
    """
    return EXAMPLE.sub(lambda example: f"{example['indent']}```pycon\n{example[0]}\n{example['indent']}```", docstring)


class FenceExamples(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fence_examples(obj.docstring.value)
