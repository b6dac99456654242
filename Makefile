# Everything runs in .venv, made from pyproject.toml at the versions of constraints.txt.
PYTHON ?= python3
BIN := .venv/bin
# One BLAS thread: the arrays are small, and more threads than cores only wait for each other.
export OPENBLAS_NUM_THREADS := 1

.PHONY: setup packages docs demo stream-demo live-demo test test-fast test-under-load lint format benchmarks peers soak chaos accuracy widths coverage comparison paper clean

setup: .venv/ready

INSTALL := $(BIN)/pip install --disable-pip-version-check --constraint constraints.txt --editable

COMPILED := $(wildcard schemas/*.[ch] transforms/*.c)

.venv/bin/python:
	$(PYTHON) -m venv .venv

# Everything. What the demo needs is part of it.
.venv/ready: pyproject.toml constraints.txt setup.py $(COMPILED) | .venv/bin/python
	$(INSTALL) '.[all,dev,docs]'
	touch $@ .venv/demo-ready

.venv/demo-ready: pyproject.toml constraints.txt setup.py $(COMPILED) | .venv/bin/python
	$(INSTALL) '.[beam,view]'
	touch $@

# Debian's programs for the tests, where that is how they are had.
packages:
	devtools/packages.sh

# Three processes for two cores: tests of engines wait for half of their time.
PYTEST := $(BIN)/pytest --numprocesses=$(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2))) --dist=loadgroup

test: setup packages lint
	$(PYTEST)

# The whole suite three times beside two processes that keep both cores busy: nothing in it may depend on time.
test-under-load: setup packages
	$(BIN)/python -m devtools.busy --processes 2 --times 3 $(PYTEST)

test-fast: setup
	$(BIN)/pytest --numprocesses=auto -m 'not slow'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, to build/site/index.html: guides and the API reference.
docs: setup
	$(BIN)/python -m devtools.collection_keys
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "file://$(CURDIR)/build/site/index.html"

# A million devices, three collections, over real data but for the groups that differ: simulated, aggregated on the in-process runner, shown.
DEMO := build/demo
SIMULATE := $(BIN)/hushgram simulate --collections examples/demo.yaml --hours 4

demo: .venv/demo-ready
	rm -rf $(DEMO)
	$(SIMULATE) --collection pickup --values taxi --group-values 'Bronx=beta(5,2)' --group-values Queens=uniform \
		--reports 500000 --output $(DEMO)/reports/pickup
	$(SIMULATE) --collection contribution --values retirement --reports 250000 --packed --output $(DEMO)/reports/contribution
	$(SIMULATE) --collection income --values income --group-values 'country=lognormal(10,0.8)' \
		--reports 250000 --ids --output $(DEMO)/reports/income
	$(BIN)/hushgram aggregate --collections examples/demo.yaml --input '$(DEMO)/reports/*/*.avro' --output $(DEMO)/results
	$(BIN)/hushgram show $(DEMO)/results $(foreach c,pickup contribution income,--truth $(DEMO)/reports/$(c)/truth.jsonl)
	$(BIN)/hushgram view $(DEMO)/results --output $(DEMO)/page.html
	@echo
	@echo "Nothing but privatised reports went in; what is in truth, the simulation kept aside."
	@echo "Look at it:  file://$(CURDIR)/$(DEMO)/page.html"
	@echo "Next:        $(BIN)/hushgram try YOUR.csv:COLUMN   does the same with numbers of your own; docs/tour.md goes on"

# Kafka, an engine, simulated devices and the pipeline on this machine, panes as they arrive; ENGINE=flink for a cluster.
ENGINE := prism

stream-demo: setup
	$(BIN)/python -m devtools.demo --engine $(ENGINE)

# A page that asks for a number, the collector that takes it, and the distribution of all visitors, live.
live-demo: setup
	$(BIN)/python -m devtools.live_demo --engine $(ENGINE)

benchmarks: setup packages
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.batch
	$(BIN)/python -m benchmarks.packing
	$(BIN)/python -m benchmarks.framing
	$(BIN)/python -m benchmarks.ids
	$(BIN)/python -m benchmarks.stream
	$(BIN)/python -m benchmarks.view
	$(BIN)/python -m benchmarks.collect --idle 10000

# Other libraries beside ours, in an environment of their own.
peers: setup
	$(BIN)/python -m benchmarks.peers

soak: setup
	$(BIN)/python -m benchmarks.soak 3

# Random faults against a stream on this machine, all counts checked after each: SEED repeats a run, MINUTES is how long.
chaos: setup packages
	$(BIN)/python -m benchmarks.chaos $(if $(SEED),--seed $(SEED)) --minutes $(or $(MINUTES),10)

# The log-spline beside EMS on the same tallies.
accuracy: setup
	$(BIN)/python -m benchmarks.accuracy

# Square Waves of several widths beside one, to build/widths.md: about twenty minutes on two cores.
widths: setup
	$(BIN)/python -m benchmarks.widths

# How often intervals hold: of EMS on smooth shapes, of both estimators of waves on the same tallies of smooth and hard
# shapes, and those for any shape on all.
coverage: setup
	$(BIN)/python -m benchmarks.coverage
	$(BIN)/python -m benchmarks.paired_coverage
	$(BIN)/python -m benchmarks.coverage --intervals any_shape

# Size and power of the test that two windows are alike, and how often intervals of differences hold.
comparison: setup
	$(BIN)/python -m benchmarks.comparison
	$(BIN)/python -m benchmarks.comparison intervals --estimator log_spline

# The paper's experiments, figures and claims, to docs/paper.md: a few minutes; FULL=1 repeats each 100 times, for hours.
paper: setup
	$(BIN)/python -m benchmarks.paper $(if $(FULL),--full)

clean:
	rm -rf .venv .tools build *.egg-info .pytest_tmp .pytest_cache .mypy_cache .ruff_cache .hypothesis
