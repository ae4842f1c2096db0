# Everything here runs without asking and without a terminal: people, hooks and CI use the same verbs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# The targets share one environment, and pytest already uses every core.
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python

# The first Python that is new enough and able to make environments.
FIND_PYTHON = for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	if "$$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	then echo "$$name"; break; fi; done
PYTHON ?= $(shell $(FIND_PYTHON))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := -m pip install --quiet

# A dialect's folder has the name that sqlfluff gives to the dialect.
DIALECTS = $(notdir $(patsubst %/,%,$(sort $(dir $(wildcard src/outrider/sql/*/*.sql)))))

.PHONY: help
help: ## Explain the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

.PHONY: demo
demo: $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.core) $(VENV)/.package ## A shop on SQLite: orders and their events, in one transaction each
	@$(PY) examples/demo.py

.PHONY: test
test: dev ## Run the tests and the examples in docstrings; says which servers took part
	@$(BIN)/pytest -n auto --maxprocesses 8

.PHONY: check
check: dev ## Check format, lint, types, imports and SQL; shows all that is wrong, not the first
	@$(MAKE) --keep-going format lint types imports sql

.PHONY: format
format: dev
	@$(BIN)/ruff format --check

.PHONY: lint
lint: dev
	@$(BIN)/ruff check

.PHONY: types
types: dev
	@$(BIN)/mypy
	@$(BIN)/pyright --warnings

.PHONY: imports
imports: dev
	@$(BIN)/lint-imports --no-cache

.PHONY: sql
sql: dev
	@for dialect in $(DIALECTS); do \
		$(BIN)/sqlfluff lint --dialect "$$dialect" "src/outrider/sql/$$dialect"; \
	done

.PHONY: fix
fix: dev ## Repair what check can repair: format, lint, SQL layout
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix
	@for dialect in $(DIALECTS); do \
		$(BIN)/sqlfluff fix --dialect "$$dialect" "src/outrider/sql/$$dialect"; \
	done

.PHONY: faults
faults: dev ## Kill, cut and fill things, and see that no event is lost
	@$(BIN)/pytest -m fault

.PHONY: bench
bench: dev ## Measure emit on this machine
	@$(BIN)/outrider bench emit

.PHONY: services
services: dev ## Say which servers the tests use on this machine
	@$(PY) -c 'from outrider.testing.servers import find_postgres as find; \
		found = find(); print(f"PostgreSQL {found.version} ({found.origin}): {found.folder}")'

.PHONY: conformance
conformance: dev ## Generate the table of requirements and the tests that prove them
	@$(PY) conformance/generate.py

.PHONY: docs
docs: build/docs/.done ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict
	@echo "site/index.html"

# Versions move only here. The files hold names, versions and hashes, never an address.
COMPILE := build/uv/bin/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-annotate \
	--universal --python-version 3.11 --no-emit-index-url --no-emit-find-links

.PHONY: requirements
requirements: build/uv/.done ## Take the newest versions that pyproject.toml allows into requirements/
	@$(COMPILE) pyproject.toml --all-extras --group dev --output-file requirements/dev.txt
	@$(COMPILE) pyproject.toml --group build --constraint requirements/dev.txt --output-file requirements/core.txt
	@$(COMPILE) --group docs --output-file requirements/docs.txt

.PHONY: clean
clean: ## Remove caches and built files (.venv stays)
	@rm -rf build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
	@find src tests examples conformance -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

.PHONY: dev
dev: $(VENV)/.dev $(VENV)/.package

$(PY):
	@"$(or $(PYTHON),false)" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo 'Outrider needs Python 3.11 or newer with its venv module (Debian: python3-venv).' >&2; \
		echo 'Install it, or name it: make PYTHON=/path/to/python3' >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV)

# What the package itself needs, and nothing more: ready in seconds.
$(VENV)/.core: requirements/core.txt | $(PY)
	@$(PY) $(PIP_INSTALL) --require-hashes --requirement $<
	@touch $@

$(VENV)/.dev: requirements/dev.txt | $(PY)
	@echo 'Installing the development tools into $(VENV) ...'
	@$(PY) $(PIP_INSTALL) --require-hashes --requirement $<
	@touch $@ $(VENV)/.core

# Editable: only a change of the metadata asks for a new installation.
$(VENV)/.package: pyproject.toml | $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.core)
	@$(PY) $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Not in .venv: the requirements of the documentation may contradict those of the tests.
build/docs/.done: requirements/docs.txt | $(PY)
	@$(PY) -m venv build/docs
	@build/docs/bin/python $(PIP_INSTALL) --require-hashes --requirement $<
	@touch $@

build/uv/.done: | $(PY)
	@$(PY) -m venv build/uv
	@build/uv/bin/python $(PIP_INSTALL) uv
	@touch $@
