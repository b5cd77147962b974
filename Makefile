# Two commands on a fresh machine: `make dataset` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup dataset test lint schemas clean

setup: .venv/.done

.venv/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

dataset: setup
	$(BIN)/ptool run --preset quick

test: setup lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

schemas: setup
	$(BIN)/python -m pipelines.publish

clean:
	rm -rf .venv outputs
