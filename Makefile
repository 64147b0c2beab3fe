# Every target sets up what it needs by itself, in .venv: a Python of at least 3.11 and a package index are enough.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Tests of one unit run in one process; none waits for another to build it.
PYTEST := -m pytest -n 2 --dist loadgroup --durations=10 $(ARGS)

# `make … ARGS="-k name"` hands more arguments to pytest, the example or the benchmarks.
ARGS ?=

# pytest ends with 5 when it ran no test, which is never what a target here wants.
define require_tests
|| { status=$$?; [ $$status -ne 5 ] || echo "make $@: pytest found no test to run" >&2; exit $$status; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help mnist test slow gpu lint types format bench wheel clean

help:  ## this list
	@awk -F ':[^#]*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

mnist: $(VENV)/.installed  ## train the MNIST example and print its accuracy
	@$(BIN)/python examples/mnist_mlp.py $(ARGS)

test: $(VENV)/.test  ## the quick tests
	$(BIN)/python $(PYTEST) -m "not slow and not gpu" $(require_tests)

slow: $(VENV)/.test  ## the long tests
	$(BIN)/python $(PYTEST) -m slow $(require_tests)

# One process, for a GPU is not shared well. pycuda is yours to install; ARGS=-s prints differences.
gpu: $(VENV)/.test  ## the tests that need an NVIDIA GPU and pycuda
	$(BIN)/python -m pytest -m gpu -rs $(ARGS) $(require_tests)

lint: $(VENV)/.lint  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.lint  ## basedpyright
	$(BIN)/basedpyright --pythonpath $(BIN)/python

format: $(VENV)/.lint  ## write ruff's format and safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# `make bench ARGS="--peers FOLDER --python PYTHON"` measures other frameworks in turn with it.
bench: $(VENV)/.installed  ## the benchmarks, quickly
	@$(BIN)/python benchmarks/run.py --quick $(ARGS)

# The tests are copied away from the checkout, so that only the installed wheel can be imported.
wheel: $(VENV)/.test  ## build the wheel and run the quick tests against it
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@set -eu; away=$$(mktemp -d); trap 'rm -rf "$$away"' EXIT; \
	$(PYTHON) -m venv "$$away/venv"; python="$$away/venv/bin/python"; \
	"$$python" -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"; \
	"$$python" -m pip install --quiet --disable-pip-version-check --group test "$$(echo dist/*.whl)[data]"; \
	mkdir "$$away/outside"; \
	for part in tests examples docs benchmarks pyproject.toml; do \
	    if [ -e "$$part" ]; then cp -R "$$part" "$$away/outside/"; fi; done; \
	cd "$$away/outside"; \
	"$$python" -c 'import noeira, sys; print("testing", noeira.__file__); sys.exit("site-packages" not in noeira.__file__)'; \
	"$$python" $(PYTEST) -m "not slow and not gpu" $(require_tests)

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist out .pytest_cache .hypothesis .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps below are files in the environment: a later call is instant until pyproject.toml changes.

$(VENV)/.pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	    echo "noeira needs Python 3.11 or newer, and '$(PYTHON)' is not: install one and say 'make PYTHON=python3.12 …'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON)' has no venv: install it (Debian and Ubuntu: apt-get install python3-venv)" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV)"
	@# Dependency groups need pip 25.1.
	@$(INSTALL) --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.installed: $(VENV)/.pip pyproject.toml
	@$(INSTALL) --editable ".[data]"
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	@$(INSTALL) --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	@$(INSTALL) --group lint
	@touch $@
