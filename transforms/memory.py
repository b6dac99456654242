"""What a worker's allocator does with memory that was freed."""

from __future__ import annotations

import ctypes
import os

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The parameters' numbers in glibc's malloc.h."""
LARGEST_KEPT = 32 << 20
"""The most that glibc takes for the second of them."""


def keep_freed_memory() -> None:
    """Arrays of some megabytes, of which each run of blocks makes a few, come from memory that was freed before.

    By default glibc gives such memory back to the system, and fetching it anew, page by page, takes longer than
    counting what is in it. Up to 64 MB are kept. The environment's own settings go first, and other C libraries are
    left alone.
    """
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(MMAP_THRESHOLD, LARGEST_KEPT)
    mallopt(TRIM_THRESHOLD, 2 * LARGEST_KEPT)
