"""What a recommended collection changes in the collections file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hushgram import Collection
from hushgram.estimators.types import METHOD_OPTIONS
from hushgram.mechanisms import mechanism_options, options_of


def changed_keys(then: Collection, now: Collection) -> dict[str, Any]:
    """The keys of the collection's entry that become others, with their values; None is a key to remove.

    >>> now = Collection(name="c", low=0, high=1, epsilon=1.0, smoothing="adaptive")
    >>> then = Collection(name="c", low=0, high=1, epsilon=1.0, estimator="log_spline", widths=[0.5, 1])
    >>> changed_keys(then, now)
    {'estimator': 'log_spline', 'smoothing': None, 'widths': [0.5, 1.0]}
    """
    before, after = _keys(now), _keys(then)
    defaults = {name: option.default for name, option in mechanism_options().items()}
    changed = [
        name
        for name in {**after, **before}
        if after.get(name, defaults.get(name)) != before.get(name, defaults.get(name))
    ]
    return {name: list(value) if isinstance(value := after.get(name), tuple) else value for name in changed}


def _keys(collection: Collection) -> dict[str, Any]:
    """How it is collected and estimated, defaults included."""
    mechanism = collection.mechanism
    return {
        "mechanism": mechanism.name,
        "estimator": collection.estimator,
        "buckets": collection.buckets,
        **{name: getattr(collection, name) for name in METHOD_OPTIONS},
        **{name: getattr(mechanism, name) for name in options_of(type(mechanism))},
    }


def yaml_lines(changed: Mapping[str, Any]) -> Iterator[str]:
    """What is to write, and as a comment what is to remove.

    >>> print(*yaml_lines({"estimator": "log_spline", "smoothing": None, "widths": [0.5, 1.0]}), sep="\\n")
    estimator: log_spline
    widths: [0.5, 1]
    # and without smoothing
    """
    for name, value in changed.items():
        if value is not None:
            yield f"{name}: {_plain(value)}"
    removed = [name for name, value in changed.items() if value is None]
    if removed:
        yield f"# and without {', '.join(removed)}"


def _plain(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)
