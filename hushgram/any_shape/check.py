"""Which collections can have intervals for any shape."""

from __future__ import annotations

from hushgram._validation import check_one_of, refuse
from hushgram.intervals import INTERVAL_KINDS, IntervalKind
from hushgram.mechanisms import MECHANISMS, Mechanism, RandomizedResponse, Transition

MOST_BUCKETS = 4096
"""The work grows with the third power of the buckets: at this limit it takes seconds, and half a gigabyte."""


def check_intervals(intervals: object, mechanism: Mechanism) -> IntervalKind:
    """A kind of interval that a mechanism has."""
    kind = check_one_of("intervals", intervals, INTERVAL_KINDS)
    if kind == "smooth":
        return "smooth"
    if not issubclass(type(mechanism), (Transition, RandomizedResponse)):
        known = [name for name, each in MECHANISMS.items() if issubclass(each, (Transition, RandomizedResponse))]
        refuse("intervals", kind, f"smooth with {mechanism.name}; any_shape is there for {', '.join(known)}")
    if mechanism.buckets > MOST_BUCKETS:
        refuse("intervals", kind, f"smooth with {mechanism.buckets} buckets; any_shape takes at most {MOST_BUCKETS}")
    return "any_shape"
