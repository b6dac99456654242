"""The library of the parts in C, through which every report passes, and how to call them.

They are plain C, called through ctypes: whoever builds them needs a compiler and nothing of Python's, and they run
alone, under sanitizers, in `python -m devtools.fuzz`.
"""

from __future__ import annotations

import ctypes
import secrets
from importlib.util import find_spec
from typing import Any

import numpy as np

LIBRARY_NAME = "hushgram._compiled"
SECRET = np.frombuffer(secrets.token_bytes(16), dtype=np.uint64)
"""Where something stands in a hash table is not for its senders to know."""


def load() -> ctypes.CDLL:
    """What setup.py has built, as if it were a module."""
    spec = find_spec(LIBRARY_NAME)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            "hushgram was installed without its decoder of reports, since there was no C compiler: install one, such as"
            " gcc, and then hushgram again",
            name=LIBRARY_NAME,
        )
    return ctypes.CDLL(spec.origin)


LIBRARY = load()
POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64


def function(name: str, *arguments: Any, result: Any = None) -> Any:
    """A function of the library, with the types of its arguments and of its result. It runs without Python's lock."""
    found = LIBRARY[name]
    found.argtypes, found.restype = arguments, result
    return found


def address(array: np.ndarray[Any, Any], kind: type[np.generic] = np.int64) -> int:
    """Where an array's numbers stand; one of another kind, or with gaps, is refused (`ndpointer` takes far longer).

    The array has to outlive the call that gets its address.
    """
    if array.dtype != kind or not array.flags.c_contiguous:
        raise TypeError(
            f"an array of {array.dtype} with strides {array.strides}, allowed: of {kind.__name__} without gaps"
        )
    place: int = array.__array_interface__["data"][0]
    return place
