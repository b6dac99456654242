# Everything runs in .venv, made from pyproject.toml at the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# One BLAS thread: the arrays are small, and more threads than cores only wait for each other.
export OPENBLAS_NUM_THREADS := 1

.PHONY: setup packages demo stream-demo test test-fast lint format benchmarks peers soak chaos coverage paper clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt setup.py
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[kafka,postgresql,view,plot,gcp,dev]'
	touch $@

# Debian's programs for the tests, where that is how they are had.
packages:
	deploy/local/packages.sh

test: setup packages lint
	$(BIN)/pytest --numprocesses=auto --dist=loadgroup

test-fast: setup
	$(BIN)/pytest --numprocesses=auto -m 'not slow'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A million devices, three collections over real data: simulated, aggregated on the in-process runner, shown.
DEMO := build/demo
SIMULATE := $(BIN)/hushgram simulate --collections examples/demo.yaml --hours 4

demo: setup
	rm -rf $(DEMO)
	$(SIMULATE) --collection pickup --values taxi --reports 500000 --output $(DEMO)/reports/pickup
	$(SIMULATE) --collection contribution --values retirement --reports 250000 --packed --output $(DEMO)/reports/contribution
	$(SIMULATE) --collection income --values income --reports 250000 --ids --output $(DEMO)/reports/income
	$(BIN)/hushgram aggregate --collections examples/demo.yaml --input '$(DEMO)/reports/*/*.avro' --output $(DEMO)/results
	$(BIN)/hushgram show $(DEMO)/results $(foreach c,pickup contribution income,--truth $(DEMO)/reports/$(c)/truth.jsonl)
	$(BIN)/hushgram view $(DEMO)/results --output $(DEMO)/page.html

# Kafka, an engine, simulated devices and the pipeline on this machine, panes as they arrive; ENGINE=flink for a cluster.
ENGINE := prism

stream-demo: setup
	$(BIN)/python -m deploy.local.demo --engine $(ENGINE)

benchmarks: setup
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.batch
	$(BIN)/python -m benchmarks.stream
	$(BIN)/python -m benchmarks.view

# Other libraries beside ours, in an environment of their own.
peers: setup
	$(BIN)/python -m benchmarks.peers

soak: setup
	$(BIN)/python -m benchmarks.soak 3

# Random faults against a stream on this machine, all counts checked after each: SEED repeats a run, MINUTES is how long.
chaos: setup packages
	$(BIN)/python -m benchmarks.chaos $(if $(SEED),--seed $(SEED)) --minutes $(or $(MINUTES),10)

coverage: setup
	$(BIN)/python -m benchmarks.coverage

# The paper's experiments, figures and claims, to docs/paper.md: a few minutes; FULL=1 repeats each 100 times, for hours.
paper: setup
	$(BIN)/python -m benchmarks.paper $(if $(FULL),--full)

clean:
	rm -rf .venv .tools build *.egg-info .pytest_tmp .pytest_cache .mypy_cache .ruff_cache .hypothesis
