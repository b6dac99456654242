"""Earlier parameters of a collection, which devices may still use: what may differ, and what is inherited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hushgram._validation import CollectionError, check_list, check_one_of, describe_key, refuse, suggest
from hushgram.mechanisms import MECHANISMS, mechanism_options, options_of

if TYPE_CHECKING:
    from hushgram.collection import Collection


def previous_keys() -> tuple[str, ...]:
    """What may differ between the revisions of one window, and stand under `previous`.

    >>> ", ".join(previous_keys())
    'epsilon, mechanism, bandwidth, widths, output_buckets, wave_ratio, symbols, level_decay'
    """
    return ("epsilon", "mechanism", *(name for name, option in mechanism_options().items() if option.varies))


def check_previous(previous: object) -> tuple[Any, ...]:
    """Each mapping as a dictionary of Python's own values, so that its repr makes it again."""
    return tuple(
        {key: value.item() if isinstance(value, np.generic) else value for key, value in difference.items()}
        if isinstance(difference, Mapping)
        else difference
        for difference in check_list("previous", previous, "differences, such as [{epsilon: 2}]")
    )


def earlier_collection(collection: Collection, where: str, difference: object) -> Collection:
    """The collection with one entry of its `previous`, which messages call `where`; all else is inherited."""
    if not isinstance(difference, Mapping) or not difference:
        refuse(where, difference, "a mapping of what was different, such as {epsilon: 2.0}")
    allowed = previous_keys()
    for key in difference:
        if key not in allowed:
            names = ", ".join(allowed) + suggest(key, allowed)
            raise CollectionError(f"{where}.{describe_key(key)}: cannot differ in one window, allowed: {names}")
    changes = dict(difference)
    try:
        name = check_one_of("mechanism", changes.pop("mechanism", collection.mechanism.name), MECHANISMS)
        if name != collection.mechanism.name:
            # Another mechanism starts with its own options, but for those that cannot differ in one window.
            options = options_of(type(collection.mechanism))
            shared = {key: getattr(collection.mechanism, key) for key in options if not options[key].varies}
            inherited = {key: value for key, value in shared.items() if value != options[key].default}
            changes = {"mechanism": name, **inherited, **changes}
        return replace(collection, **{**changes, "previous": (), "groups": (), "device": None})
    except CollectionError as error:
        raise CollectionError(f"{where}: {str(error).removeprefix(f'collection {collection.name!r}: ')}") from None
