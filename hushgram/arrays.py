"""Names for the arrays that pass between the modules, and the checks every array from outside must pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def whole_numbers(name: str, values: npt.ArrayLike, limit: int) -> npt.NDArray[Any]:
    """A flat array of integers from 0 to `limit` - 1, in whatever integer type they came."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be whole numbers, got {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat sequence, got an array of shape {array.shape}")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= limit:
        raise ValueError(f"{name} must be from 0 to {limit - 1}, got {low if low < 0 else high}")
    return array


def counts(name: str, values: npt.ArrayLike, length: int) -> IntArray:
    """A vector of `length` counts: whole, none negative, their sum within 63 bits."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold whole numbers, got {array.dtype}")
    if array.shape != (length,):
        raise ValueError(f"{name} must be a vector of length {length}, got shape {array.shape}")
    if array.dtype.kind == "i" and int(array.min()) < 0:
        where = int(array.argmin())
        raise ValueError(f"{name} must not be negative, got {int(array[where])} at cell {where}")
    if float(array.sum(dtype=np.float64)) >= 2.0**63:
        raise ValueError(f"{name} must sum to less than 2**63")
    return array.astype(np.int64, copy=False)


def finite_numbers(name: str, values: npt.ArrayLike) -> FloatArray:
    """A flat array of finite floats; names the first value that is not one."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iufb":
            raise TypeError
        array = np.atleast_1d(array.astype(np.float64, copy=False))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers, got {_shorten(values)}") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat sequence, got an array of shape {array.shape}")
    # Extremes are not finite if one value is not, and cost no memory, however many values there are.
    if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        where = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name} must be finite, got {array[where]} at position {where}")
    return array


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
