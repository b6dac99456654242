"""How coarse the event times are that leave a device: as coarse as the windows allow, and no finer."""

from __future__ import annotations

import math

import numpy as np

from hushgram.windows import DAYS_CHECKED, Windows

SHARE_OF_AGE = 24
"""A time is cut by at most this part of `max_age`, or reports would be refused as too old sooner than they are."""


def device_slice(windows: Windows) -> tuple[int, int]:
    """The length of the slices that devices cut event times to, and where one of them begins, in milliseconds.

    No edge of a window lies within a slice, so a cut time lies in the same windows as the time itself.

    >>> device_slice(Windows())
    (3600000, 0)
    >>> device_slice(Windows(size=7 * 86_400_000, every=7 * 86_400_000))
    (3600000, 0)
    """
    length, first = windows.slice, windows.first
    if windows.days is not None:
        begins = windows.days.begins(DAYS_CHECKED)
        length = math.gcd(length, int(np.gcd.reduce(np.diff(begins))))
        first = int(begins[0])
    length = _greatest_divisor(length, max(1, windows.max_age // SHARE_OF_AGE))
    return length, first % length


def _greatest_divisor(number: int, most: int) -> int:
    """The greatest divisor of a number that is not above `most`.

    >>> _greatest_divisor(86_400_000, 5_000_000)
    4800000
    """
    small = [k for k in range(1, math.isqrt(number) + 1) if number % k == 0]
    return max(divisor for k in small for divisor in (k, number // k) if divisor <= most)
