"""Messages that name their schema by its id in a registry: in front of the record, or in a header.

In front it is a zero byte and the id, four bytes, the first highest. In the header `__value_schema_id` it is the same,
or a byte of one and a GUID of sixteen bytes, as Confluent's serializers write it; some producers write the four bytes
only. The record is then all of the message. A header goes before whatever the message begins with.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

Headers = Sequence[tuple[str, bytes | None]]

ID_HEADER = "__value_schema_id"
BY_NUMBER, BY_GUID = b"\x00", b"\x01"
FRAME = len(BY_NUMBER) + 4
"""The bytes in front of a record."""
GUID_FORM = len(BY_GUID) + 16


def frame(schema_id: int) -> bytes:
    """What stands in front of a record of the schema with this id.

    >>> frame(258).hex()
    '0000000102'
    """
    return BY_NUMBER + schema_id.to_bytes(4, "big")


def id_in_headers(headers: Headers | None) -> bytes | None:
    """The id that headers name, in the form with a first byte; None if they name none.

    >>> id_in_headers([("trace", b"x"), (ID_HEADER, b"\\0\\0\\0\\7")]) == frame(7)
    True
    """
    for name, value in headers or ():
        if name == ID_HEADER:
            return BY_NUMBER + value if value is not None and len(value) == FRAME - 1 else value or b""
    return None


def id_of_frame(message: bytes) -> bytes | None:
    """The id in front of a message, in the same form; None if there is none."""
    return message[:FRAME] if message[:1] == BY_NUMBER and len(message) >= FRAME else None


def parse_id(named: bytes) -> int | UUID | None:
    """An id as the registry is asked for it; None if it is no id.

    >>> parse_id(frame(7)), parse_id(b"\\1" + bytes(16)), parse_id(b"\\2")
    (7, UUID('00000000-0000-0000-0000-000000000000'), None)
    """
    if named[:1] == BY_NUMBER and len(named) == FRAME:
        return int.from_bytes(named[1:], "big")
    if named[:1] == BY_GUID and len(named) == GUID_FORM:
        return UUID(bytes=named[1:])
    return None
