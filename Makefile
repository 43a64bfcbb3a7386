# The only task runner. Every target that needs it makes .venv first, with Java if the machine has none.
.DEFAULT_GOAL := help
.PHONY: help demo test check bench docs fix lint types crash faults chaos soak laws spec spec-spark record-flink clean

PYTHON := .venv/bin/python
STAMP := .venv/.flintstream-stamp
STATIC := format lint types imports sizes api

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## average sensor readings, live, in about a minute
	@$(PYTHON) -m flintstream.demo

test: $(STAMP) ## everything: lint, types, imports, sizes, public names, all tests but the long crash ones
	@$(PYTHON) tools/checks.py $(STATIC) tests

check: $(STAMP) ## the same without tests that start Spark or Kafka or are slow
	@$(PYTHON) tools/checks.py $(STATIC) quick-tests

bench: $(STAMP) ## measure against stock Spark, PyFlink and Bytewax
	@$(PYTHON) bench/run.py

docs: $(STAMP) ## draw the pictures of docs/concepts again, from real runs
	@$(PYTHON) tools/draw_concepts.py

fix: $(STAMP) ## format, and mend what ruff can mend
	@.venv/bin/ruff check --fix-only --quiet .
	@.venv/bin/ruff format .

lint: $(STAMP) ## format and lint only
	@$(PYTHON) tools/checks.py format lint

types: $(STAMP) ## types only
	@$(PYTHON) tools/checks.py types

crash: $(STAMP) ## the long crash tests: a million events, ten kills of driver, workers, executors
	@$(PYTHON) tools/checks.py slow-tests

chaos: $(STAMP) ## ten minutes of kills: driver, JVM, workers, broker, database; every result compared
	@$(PYTHON) -m tools.chaos --write tests/chaos/RESULTS.md

soak: $(STAMP) ## the same for an hour with 20 kills: recovery times, memory, files
	@$(PYTHON) -m tools.chaos --minutes 60 --kills 20 --write tests/chaos/RESULTS.md

faults: $(STAMP) ## a crash at every step of five programs, in process and on Spark; writes tests/faults/RESULTS.md
	@$(PYTHON) -m tests.faults.all_faults

laws: $(STAMP) ## the properties again, on examples that nobody has tried yet
	@FLINTSTREAM_NEW_EXAMPLES=1 FLINTSTREAM_EXAMPLES=200 $(PYTHON) -m pytest -q -m "not spark and not slow" tests/laws tests/unit

spec: $(STAMP) ## the transcripts of tests/spec in this process, in every way they can be played
	@$(PYTHON) -m pytest -q -m "not spark" tests/spec

spec-spark: $(STAMP) ## the same on Spark (about half an hour); writes tests/spec/SPARK_RESULTS.md
	@$(PYTHON) -m tests.spec.all_on_spark

record-flink: $(STAMP) ## run the pipelines of tests/differential on real PyFlink and record what they emit
	@$$($(PYTHON) bench/rivals/venvs.py flink) tools/record_flink.py

clean: ## remove all that make created: .venv, .bench, .kafka, caches, builds
	@rm -rf .venv .bench .kafka build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml tools/setup.sh
	@sh tools/setup.sh
	@touch $@
