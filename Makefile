# make trace   trace a prompt through the bundled reference server and a real model: builds .venv,
#              installs torch, downloads 93 MB of weights, each once; ENGINE=paced: none of these two
# make test    the whole test suite (as root it installs the Debian packages it drives; APT=0: not)
# make lint    ruff, mypy --strict, import layers, file sizes
# make bench   every number the documentation claims, measured here; JSON in benchmarks/results
# make clean   remove what the above made

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=
ENGINE ?= auto
APT ?= 1
export APT PYTHON

.DEFAULT_GOAL := help
.PHONY: help trace test lint format bench clean packages

help:
	@sed -n 's/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is $$($(PYTHON) -V 2>&1)"; echo "  expected: Python 3.11 or newer"; \
	  echo "hint: make PYTHON=python3.12 ..."; exit 2; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "error: $(PYTHON) -m venv failed"; \
	  echo "hint: on Debian the module is a package of its own: apt-get install python3-venv"; exit 2; }

# A stamp for each set of packages: the second `make trace` starts at once.
$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,server]'
	@touch $@ $(VENV)/.installed

# What cannot be had is no failure: the trace then runs on the paced engine and says so.
$(VENV)/.model: $(VENV)/.installed
	@echo "installing torch and pulling the model, once (make trace ENGINE=paced: without)" >&2
	@{ $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[server]' && \
	  $(BIN)/promptpath model pull >/dev/null && touch $@; } || true

trace: $(VENV)/.installed $(if $(filter paced,$(ENGINE)),,$(VENV)/.model)
	@PROMPTPATH_ENGINE=$(ENGINE) $(BIN)/promptpath trace $(ARGS)

packages:
	@.ci/install-packages

test: packages $(VENV)/.installed-dev
	@$(BIN)/python -m pytest $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.tools.file_size

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: packages $(VENV)/.installed-dev
	@$(BIN)/python -m benchmarks $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
