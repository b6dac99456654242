"""The commands: pipelines that are built, run and watched from a terminal."""

import os

# Before numpy is imported: arrays are small here, and more threads than cores only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
