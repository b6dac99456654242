# Everything runs in .venv, made from pyproject.toml at the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# One BLAS thread: the arrays are small, and more threads than cores only wait for each other.
export OPENBLAS_NUM_THREADS := 1

.PHONY: setup test test-fast lint format benchmarks coverage clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt setup.py
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

test: setup lint
	$(BIN)/pytest --numprocesses=auto

test-fast: setup
	$(BIN)/pytest --numprocesses=auto -m 'not slow'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmarks: setup
	$(BIN)/python -m benchmarks.speed

coverage: setup
	$(BIN)/python -m benchmarks.coverage

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
