# Two commands on a fresh machine: `make dataset` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
BIN := .venv/bin

# Tests that start servers, workers, browsers and processes to kill: some minutes, so a target of their own.
PROCESSES := tests/deployed tests/llm/test_kill.py

.PHONY: setup dataset test test-processes lint schemas clean

setup: .venv/.done

.venv/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

dataset: setup
	$(BIN)/ptool run --preset quick

test: setup lint
	$(BIN)/python -m pytest $(addprefix --ignore=,$(PROCESSES))

test-processes: setup
	$(BIN)/python -m pytest $(PROCESSES)

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

schemas: setup
	$(BIN)/python -m pipelines.publish

clean:
	rm -rf .venv outputs
