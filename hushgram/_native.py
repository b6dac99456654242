"""The library of the parts that are C: the decoder of reports, and the search for ids.

They are plain C, called through ctypes: whoever builds them needs a compiler and nothing of Python's, and they run
alone, under sanitizers, in `python -m devtools.fuzz`.
"""

from __future__ import annotations

import ctypes
import secrets
from importlib.util import find_spec

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
