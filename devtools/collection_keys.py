"""`python -m devtools.collection_keys`: writes docs/collection_file.md, every key of a collections file, from the code.

Meanings are the docstrings of the fields, defaults those of the classes. The allowed values are taken from the message
with which the code refuses a value, so that nothing is written twice.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from hushgram import Collection, CollectionError
from hushgram.config import DOMAIN_KEYS, collection_keys
from hushgram.device import Device
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.mechanisms import MECHANISMS, mechanism_options, options_of
from hushgram.windows import DURATIONS, NAMES, Windows, format_duration

PAGE = Path(__file__).parents[1] / "docs" / "collection_file.md"
VALID: dict[str, Any] = {"name": "c", "low": 0, "high": 63, "epsilon": 1.0, "buckets": 64}
DEVICE_KEYS = ("epsilon", "every", "slots")
TYPES = {
    **{"float": "number", "int": "whole number", "str": "text", "bool": "true or false", "IntervalKind": "text"},
    **{"Windows": "mapping", "Device": "mapping"},
}
HEADING = """\
# Every key of a collections file

<!-- Written by `python -m devtools.collection_keys` from the docstrings of the fields: edit those. -->

A file has one entry, `collections`, that maps names to collections. Beside it, `device` may hold the `epsilon` and
`every` of a budget over all of them together, which is also that of a collection without a `device` of its own. A key
that is not listed here is refused, and the closest name that is listed is suggested.
[Defining a collection](collections.md) has an example, and advice.
"""


def render_page() -> str:
    options = [*mechanism_options(), *METHOD_OPTIONS]
    keys = [name for name in collection_keys() if name not in ("domain", *options)]
    sections = {
        "A collection": [_row(name, name) for name in keys],
        "`domain`": [_row(f"domain.{name}", name) for name in DOMAIN_KEYS],
        "`windows`": [_window_row(name) for name in NAMES],
        "`device`": [_device_row(name) for name in DEVICE_KEYS],
        "Options of mechanisms and estimators": [_row(name, name) for name in options],
    }
    return HEADING + "".join(f"\n## {title}\n\n{_table(rows)}" for title, rows in sections.items())


def field_docs(owner: type) -> dict[str, str]:
    """The docstrings that follow the fields of a class.

    >>> field_docs(Windows)["size"]
    'How long a window is.'
    """
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(str(ast.literal_eval(text.value)).split())
        for field, text in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr)
    }


def describe_allowed(name: str) -> str:
    """The values that a key of a collection allows, and for an option, the mechanisms or estimators that take it.

    >>> describe_allowed("epsilon")
    'a number from 1e-06 to 20'
    >>> describe_allowed("branching"), describe_allowed("solver")
    ('a whole number from 2 to 8; with `hierarchy`', 'exact, admm; with `hh_admm`')
    """
    if name in ("windows", "device"):
        return _read_refusal(Windows.parse if name == "windows" else Device.parse, object(), name) or ""
    entries = [VALID] if name == "mechanism" else [{**VALID, "mechanism": mechanism} for mechanism in MECHANISMS]
    answers = [(entry, _read_refusal(_collection, {**entry, name: object()}, name)) for entry in entries]
    text = next(answer for _, answer in answers if answer)
    takers = [entry["mechanism"] for entry, answer in answers if answer and "mechanism" in entry]
    if name in METHOD_OPTIONS:
        kinds = [(mechanism, estimator) for mechanism, kind in MECHANISMS.items() for estimator in kind.estimators]
        choice = text.split(", ")[0]
        takers = [
            estimator
            for mechanism, estimator in kinds
            if _is_possible(mechanism=mechanism, estimator=estimator, **{name: choice})
        ]
    elif len(takers) in (0, len(MECHANISMS)):
        return text
    return f"{text}; with {', '.join(f'`{estimator}`' for estimator in dict.fromkeys(takers))}"


def _collection(entry: dict[str, Any]) -> Collection:
    return Collection(**entry)


def _is_possible(**options: str) -> bool:
    try:
        return bool(_collection({**VALID, **options}))
    except CollectionError:
        return False


def _read_refusal(make: Callable[[Any], object], value: object, name: str) -> str | None:
    """The allowed values, as the code's own refusal states them; None if it refuses for another reason."""
    try:
        make(value)
    except CollectionError as error:
        match = re.search(rf"\b{re.escape(name)}: got .*?, allowed: (.*)", str(error))
        return None if match is None else match[1].replace(f"to {VALID['buckets']}", "to `buckets`")
    raise AssertionError(f"{name} takes anything")


def _row(key: str, name: str) -> list[str]:
    if name in mechanism_options():
        default, owner = mechanism_options()[name].default, _declaring_class(name)
    else:
        default, owner = inspect.signature(Collection).parameters[name].default, Collection
    text = "str" if name == "mechanism" else str(owner.__annotations__[name]).removesuffix(" | None")
    kind = "list" if text.startswith("tuple") else TYPES[text]
    default_text = "required" if default is inspect.Parameter.empty else _format_default(default)
    return [f"`{key}`", kind, default_text, describe_allowed(name), field_docs(owner)[name]]


def _declaring_class(option: str) -> type:
    """The first mechanism that has the option, or the class that it has it from."""
    kind = next(kind for kind in MECHANISMS.values() if option in options_of(kind))
    return next(parent for parent in kind.__mro__ if option in inspect.get_annotations(parent))


def _window_row(name: str) -> list[str]:
    small, large = (getattr(Windows.parse({"size": size}), name) for size in ("1h", "2h"))
    default: Any = Windows.__dataclass_fields__[name].default
    follows_size = name != "size" and small != large
    default_text = (
        "as `size`"
        if follows_size
        else f"`{format_duration(default)}`"
        if name in DURATIONS
        else _format_default(default)
    )
    kind = "duration" if name in DURATIONS else "share" if isinstance(default, float) else "text"
    answer = _read_refusal(lambda value: Windows.parse({name: value}), object(), name)
    return [f"`windows.{name}`", kind, default_text, answer or "", field_docs(Windows)[name]]


def _device_row(name: str) -> list[str]:
    valid = {"epsilon": 2.0, "every": "7d"}
    default = Device.__dataclass_fields__[name].default
    answer = _read_refusal(lambda value: Device.parse({**valid, name: value}), object(), name)
    kind = {"epsilon": "number", "every": "duration", "slots": "whole number"}[name]
    shown = "required" if default is MISSING else _format_default(default)
    return [f"`device.{name}`", kind, shown, answer or "", field_docs(Device)[name]]


def _format_default(default: object) -> str:
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default}`" if isinstance(default, (int, float, str)) and default != "" else ""


def _table(rows: Iterable[list[str]]) -> str:
    lines = [["key", "type", "default", "allowed", "meaning"], ["---"] * 5, *rows]
    return "".join(f"| {' | '.join(map(_mark_yaml_as_code, line))} |\n" for line in lines)


def _mark_yaml_as_code(text: str) -> str:
    """Mappings as code, or the site would take them for attributes.

    >>> _mark_yaml_as_code("a list, such as [{epsilon: 2}]")
    'a list, such as `[{epsilon: 2}]`'
    """
    return re.sub(r"(?<!`)(\[?\{[^}]*\}\]?)", r"`\1`", text)


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
