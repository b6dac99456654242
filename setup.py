"""Builds the parts in C, through which every report passes, from its bytes to its count. The rest is in pyproject.toml.

Also for tools that ask for a setup.py, Beam's `--setup_file` among them.
"""

from setuptools import Extension, setup

COMPILED = Extension(
    "hushgram._compiled",
    [
        "hushgram/schemas/decoder.c",
        "hushgram/transforms/judging.c",
        "hushgram/transforms/uploads.c",
        "hushgram/transforms/ids.c",
        "hushgram/transforms/counting.c",
    ],
    depends=["hushgram/schemas/mix.h"],
    extra_compile_args=["-std=c99", "-O3", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden"],
    py_limited_api=True,  # it needs nothing of Python's, of whatever version
    optional=True,  # without a compiler all works that reads no reports; what does says what is missing
)

setup(ext_modules=[COMPILED], options={"bdist_wheel": {"py_limited_api": "cp311"}})
