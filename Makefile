# Everything starts here; plain `make` lists what there is. Needs only Python 3.11 or newer, make and git.
# ARGS passes options on: make demo ARGS=--json, make test ARGS='-k resources -x'.

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint chaos chaos-report mutants bench docs openapi screenshots lines lock clean

PYTHON ?= $(shell for each in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && break; done)
WORKERS ?= 4
ARGS ?=
SHARD ?=

# Where this is set, each process that a test starts would compile Omega anew.
export PYTHONDONTWRITEBYTECODE :=

PRODUCT := cellstate schedulers omega cli benchmarks
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/installed
DEV := $(VENV)/installed-dev
SITE := $(VENV)/installed-docs
PIP := -m pip install -qq --disable-pip-version-check --no-input

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(DEV)  ## make .venv with everything that runs, tests and draws (the other targets make what they need)

demo: $(RUN)  ## the main job end to end on this machine: store, cell, schedulers, workload, verdict
	@$(BIN)/omega demo $(ARGS)

test: $(DEV)  ## every test of behaviour, in about 7 minutes on two cores
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal --ignore=tests/architecture $(ARGS)

lint: $(DEV)  ## checks of the text: ruff, mypy, import-linter, and the rules of tests/architecture
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q tests/architecture

chaos: $(DEV)  ## the long forms of tests, in six parts of at most 25 minutes: make chaos SHARD=2/6; or some: make chaos ARGS='-k soak'
	@$(if $(SHARD),$(BIN)/python -m tests.chaos.shards $(SHARD),$(BIN)/pytest -m chaos -o timeout=3600 $(ARGS))

chaos-report: $(DEV)  ## which parts of make chaos passed, failed or are missing for this commit
	@$(BIN)/python -m tests.chaos.shards report

mutants: $(DEV)  ## three samples of changed lines of the program, which the tests must notice; hours
	@$(BIN)/pytest -m chaos -o timeout=36000 tests/chaos/test_mutation.py $(ARGS)

bench: $(RUN)  ## what the store and the schedulers do per second here: omega bench commit, then conflict
	@$(BIN)/omega bench commit $(ARGS)
	@$(BIN)/omega bench conflict $(ARGS)

docs: $(SITE)  ## the documentation site, build/docs/index.html; a link that leads nowhere fails; ARGS='-b linkcheck' tries links to other sites
	@$(BIN)/sphinx-build -q -E -W -c docs/site -d build/doctrees $(ARGS) . build/docs

openapi: $(DEV)  ## docs/openapi.json, the document of the HTTP API that the site and a test read
	@$(BIN)/python -m tests.web.test_document

screenshots: $(DEV)  ## the pictures of the console in docs/figures, made in Chromium from a filled cell
	@$(BIN)/python -m tests.browser.screenshots

lines:  ## the lines of Python and Lua per package, tests apart; files that git tracks
	@for folder in $(PRODUCT); do \
		git ls-files -z "$$folder/*.py" "$$folder/*.lua" | xargs -0 cat | wc -l | xargs printf '%-12s%8d\n' "$$folder"; done \
		| awk '{ print; total += $$2 } END { printf "%-12s%8d\n", "total", total }'

lock:  ## write requirements.lock anew: the newest versions that pyproject.toml allows, tried in a clean venv
	@$(MAKE) --no-print-directory PYTHON='$(PYTHON)' VENV=.venv-lock .venv-lock/bin/python
	@.venv-lock/bin/python $(PIP) -e '.[dev,docs]'
	@{ echo '# Versions that were tested together; pip takes them as constraints. Written by: make lock'; \
	   .venv-lock/bin/python -m pip freeze --disable-pip-version-check --exclude-editable; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock
	@rm -rf .venv-lock
	@echo "requirements.lock: $$(grep -c == requirements.lock) packages; run make test"

clean:  ## remove .venv and all caches; the store's data is not touched
	@rm -rf .venv .venv-lock build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# The marks below are younger than what they were made from, so a change there installs again.
$(RUN): pyproject.toml requirements.lock | $(BIN)/python
	@echo "installing Omega into $(VENV)"
	@$(BIN)/python $(PIP) -c requirements.lock -e '.[readme]'
	@touch $@

$(DEV): pyproject.toml requirements.lock | $(BIN)/python
	@echo "installing Omega and its tests into $(VENV)"
	@$(BIN)/python $(PIP) -c requirements.lock -e '.[dev]'
	@touch $(RUN) $@

$(SITE): pyproject.toml requirements.lock | $(BIN)/python
	@echo "installing Omega and the tools of its documentation into $(VENV)"
	@$(BIN)/python $(PIP) -c requirements.lock -e '.[docs]'
	@touch $@

$(BIN)/python:
	@test -n '$(PYTHON)' || { \
		echo 'error: no Python 3.11 or newer on PATH; install one, or say which: make PYTHON=/path/to/python3' >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); \
		echo "error: $(PYTHON) cannot make a virtual environment; install its venv package (Debian: python3-venv)" >&2; exit 1; }
