"""The manifest of a collection: all that a device needs, in any language, without this package.

Integers of the law and real numbers are decimal text that reads back as the same number; `schemas/manifest.schema.json`
is its schema, docs/clients.md says what a client does with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hushgram.device import Budget, cost
from hushgram.manifest.channels import law
from hushgram.manifest.event_times import device_slice
from hushgram.manifest.locating import locating

if TYPE_CHECKING:
    from hushgram.collection import Collection

FORMAT = "hushgram-manifest/1"
SCHEMAS = {"Report": "8d51ac06d359ba88", "ReportBatch": "f5c4f5368c715f19"}
"""The fingerprints that messages of this format begin with; tests hold them to the schemas."""


def manifest(collection: Collection) -> dict[str, Any]:
    """What devices need of a collection, as plain values for JSON. Earlier revisions are not in it.

    >>> from hushgram import Collection
    >>> made = manifest(Collection(name="commute", low=0, high=180, epsilon=1.0))
    >>> made["format"], made["revision"], made["law"]["cells"]
    ('hushgram-manifest/1', 'bee7fcbcb7cce993', '1548')
    """
    length, first = device_slice(collection.windows)
    device = collection.device
    return {
        "format": FORMAT,
        "collection": collection.name,
        "revision": collection.revision,
        "domain": {
            "scale": collection.scale,
            "low": repr(collection.low),
            "high": repr(collection.high),
            "integer": collection.integer,
        },
        "locate": locating(collection.domain, collection.mechanism),
        "mechanism": collection.mechanism.name,
        "law": law(collection.mechanism),
        "groups": list(collection.groups),
        "slice_ms": length,
        "slice_first_ms": first,
        "max_age_ms": collection.windows.max_age,
        "device": {
            "epsilon": repr(collection.epsilon),
            "cost": cost(collection.epsilon),
            "budget": None if device is None else _budget(device.budget),
            "slots": 1 if device is None else device.slots,
            "total": None if device is None or device.total is None else _budget(device.total),
        },
        "schemas": SCHEMAS,
    }


def _budget(budget: Budget) -> dict[str, int]:
    return {"amount": budget.amount, "every_ms": budget.every}
