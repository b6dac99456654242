"""The decoder of reports, which is C; everything else that is to be said is in pyproject.toml.

Also for tools that ask for a setup.py, Beam's `--setup_file` among them.
"""

from setuptools import Extension, setup

DECODER = Extension(
    "hushgram.schemas._decoder",
    ["hushgram/schemas/decoder.c"],
    extra_compile_args=["-std=c99", "-O3", "-g0", "-Wall", "-Wextra", "-fvisibility=hidden"],
    py_limited_api=True,  # it needs nothing of Python's, of whatever version
    optional=True,  # without a compiler all works that decodes no reports; what does says what is missing
)

setup(ext_modules=[DECODER], options={"bdist_wheel": {"py_limited_api": "cp311"}})
