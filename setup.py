"""Builds the parts that are written in C: the decoder of reports and the search for ids. The rest is in pyproject.toml.

Also for tools that ask for a setup.py, Beam's `--setup_file` among them.
"""

from setuptools import Extension, setup

COMPILED = Extension(
    "hushgram._compiled",
    [
        f"hushgram/{name}.c"
        for name in (
            "schemas/decoder",
            "transforms/counting",
            "transforms/ids",
            "transforms/judging",
            "transforms/uploads",
        )
    ],
    depends=["hushgram/schemas/mix.h"],
    extra_compile_args=["-std=c99", "-O3", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden"],
    py_limited_api=True,  # it needs nothing of Python's, of whatever version
    optional=True,  # without a compiler all works that decodes no reports; what does says what is missing
)

setup(ext_modules=[COMPILED], options={"bdist_wheel": {"py_limited_api": "cp311"}})
