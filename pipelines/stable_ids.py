"""A stream's timers belong to names, so that a job can go on from a savepoint although its pipeline has changed.

Flink's runner finds state by the names of steps, but a timer by the id of its transform, and Beam numbers these: with a
window setting more, or the same ones in another order, a timer of the savepoint would be nobody's, or its neighbour's,
and the job would fail whenever it comes due. Here the id of a transform is made of its name.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from apache_beam.pipeline import AppliedPTransform, ComponentIdMap


class NamedIds(ComponentIdMap):
    """For `pipeline.component_id_map`, before anything else has asked it for an id."""

    def get_or_assign(self, obj: Any = None, obj_type: Any = None, label: str | None = None) -> str:
        if isinstance(obj, AppliedPTransform):
            return id_of(obj.full_label)
        return str(super().get_or_assign(obj, obj_type, label))


def id_of(name: str) -> str:
    """What can be read of a transform's name, and a digest of all of it; names are unique in a pipeline.

    >>> id_of("Read/Poll")
    'Read-Poll-353059a2'
    """
    readable = re.sub("[^a-zA-Z0-9]+", "-", name)
    return f"{readable[:100]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
