"""Freed memory is kept for the next arrays, unless the environment says otherwise."""

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from hushgram.transforms.memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(100):
    arrays = [np.ones(1 << 19) for _ in range(4)]  # 16 MB
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def count_page_faults(how, **environment):
    arguments = [sys.executable, "-c", PROGRAM, how]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    completed = subprocess.run(arguments, capture_output=True, text=True, check=True, env={**plain, **environment})
    return int(completed.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_arrays_come_from_memory_that_was_freed_before():
    """By default a hundred times 16 MB are some 200,000 faults, since each time all their pages are fetched anew."""
    anew = count_page_faults("usual", MALLOC_MMAP_THRESHOLD_="131072")
    assert count_page_faults("kept") < anew / 10
    assert count_page_faults("kept", MALLOC_MMAP_THRESHOLD_="131072") > anew / 2, "the environment goes first"
