"""Types of the arrays that modules exchange, and checks of arrays from outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hushgram._validation import describe

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
UIntArray = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]
KINDS = {"b": "truth values", "c": "complex numbers", "f": "floating-point numbers", "S": "bytes", "U": "text"}
"""Kinds of numpy's types in words, for messages about a wrong one."""


def _as_array(name: str, values: npt.ArrayLike, kinds: str, what: str) -> npt.NDArray[Any]:
    """An array of one of the numpy `kinds`; `what` names them in the error."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # ragged lists, objects that refuse
        raise ValueError(f"{name} must be {what}, got {describe(values)}") from None
    if array.size and array.dtype.kind not in kinds:
        kind = f"{KINDS[array.dtype.kind]}: " if array.dtype.kind in KINDS else ""
        raise ValueError(f"{name} must be {what}, got {kind}{describe(values)}")
    return array


def check_whole_numbers(name: str, values: npt.ArrayLike, limit: int) -> npt.NDArray[Any]:
    """A flat array of integers from 0 to `limit` - 1, in their own integer type."""
    array = _as_array(name, values, "iu", "whole numbers")
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat sequence, got an array of shape {array.shape}")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= limit:
        raise ValueError(f"{name} must be from 0 to {limit - 1}, got {low if low < 0 else high}")
    return array


def check_counts(name: str, values: npt.ArrayLike, length: int) -> IntArray:
    """A vector of `length` counts: whole, none negative, their sum within 63 bits."""
    array = _as_array(name, values, "iu", "whole numbers")
    if array.shape != (length,):
        raise ValueError(f"{name} must be a vector of length {length}, got shape {array.shape}")
    low = int(array.min())
    if low < 0:
        raise ValueError(f"{name} must not be negative, got {low} at cell {int(array.argmin())}")
    if float(array.sum(dtype=np.float64)) >= 2.0**63:
        raise ValueError(f"{name} must sum to less than 2**63")
    return array.astype(np.int64, copy=False)


def check_finite_numbers(name: str, values: npt.ArrayLike) -> FloatArray:
    """A flat array of finite floats; names the first value that is not one."""
    array = np.atleast_1d(_as_array(name, values, "iuf", "numbers").astype(np.float64, copy=False))
    if array.ndim != 1:
        raise ValueError(f"{name} must be a flat sequence, got an array of shape {array.shape}")
    # The extremes are finite only if all values are, and need no memory.
    if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        where = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name} must be finite, got {array[where]} at position {where}")
    return array


def check_finite_number(name: str, value: object) -> float:
    """One finite number."""
    if np.isscalar(value):
        try:
            number = float(check_real_numbers(name, value))
        except ValueError:
            number = math.nan
        if math.isfinite(number):
            return number
    raise ValueError(f"{name} must be a finite number, got {describe(value)}")


def check_real_numbers(name: str, values: object) -> FloatArray:
    """A new array of floats, of any shape, finite or infinite; NaN is refused."""
    if isinstance(values, int) and not isinstance(values, bool):
        try:
            values = float(values)  # numpy makes an object of a whole number above 2**64
        except OverflowError:
            raise ValueError(f"{name} must be a number, got {describe(values)}") from None
    try:
        array = np.asarray(values)
        known = not array.size or (array.dtype.kind in "iuf" and not np.isnan(array).any())
    except (TypeError, ValueError, OverflowError):  # ragged lists, objects that refuse
        known = False
    if not known:
        raise ValueError(f"{name} must be a number, got {describe(values)}")
    return array.astype(np.float64)


def make_read_only(array: FloatArray) -> FloatArray:
    """A copy of the array that cannot be written to: a view of one that can would only have to be asked."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy.view()
