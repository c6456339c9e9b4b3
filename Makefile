# One word for each thing that .ci/run does; `make check` before every change.
BIN := .venv/bin

.PHONY: setup fmt lint types imports test docs lock check

setup:
	python3.11 -m venv .venv
	$(BIN)/pip install -q -r requirements-dev.lock
	$(BIN)/pip install -q --no-deps -e .

fmt:
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy

imports:
	$(BIN)/lint-imports

test:
	$(BIN)/pytest --cov

docs:
	$(BIN)/gpu-chargeback schema

lock:
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate pyproject.toml -o requirements.lock
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate --all-extras --group dev pyproject.toml -o requirements-dev.lock

check: lint types imports test
