# Isotherm: every word a developer or CI needs. `make help` lists them.

PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
  $(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint requirements.lock
INPUTS := pyproject.toml requirements.lock tiers/datapath/_md5.c
CODE := gateway tiers metadata tests benchmarks compatibility

.DEFAULT_GOAL := help
.PHONY: help serve test check unit protocol probe clients bench compat nightly image lock services ratchet clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Isotherm needs Python 3.11 or newer, as python3 or named: make PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "is the package python3-venv installed?"; exit 1; }

# The runtime environment alone: enough for `make serve`.
$(VENV)/.runtime: $(INPUTS) | $(BIN)/python
	$(INSTALL) setuptools
	$(INSTALL) --no-build-isolation --editable '.[postgres]'
	@touch $@

# The same and what the tests need.
$(VENV)/.dev: $(INPUTS) | $(BIN)/python
	$(INSTALL) setuptools
	$(INSTALL) --no-build-isolation --editable '.[postgres,dev]'
	@touch $(VENV)/.runtime $@

# The same and the peers of the benchmark.
$(VENV)/.bench: $(VENV)/.dev
	$(INSTALL) --no-build-isolation --editable '.[postgres,dev,bench]'
	@touch $@

serve: $(VENV)/.runtime  ## set everything up and run the gateway on ./isotherm-data (ports 9000 and 9001)
	$(BIN)/isotherm serve

services:  ## install what the tests need beside Python, where this user may (PostgreSQL, Prometheus, restic, ...)
	@sh tests/services.sh

test: services clients $(VENV)/.dev check  ## set everything up and run the whole ordinary suite (PostgreSQL included)
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup -m 'not nightly' --ignore tests/architecture tests

check: $(VENV)/.dev  ## format, lint, types, import contracts, tidy
	$(BIN)/ruff format --check --quiet $(CODE)
	$(BIN)/ruff check --quiet $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/architecture

unit: $(VENV)/.dev  ## everything that needs no second process
	$(BIN)/python -m pytest -q -n $(JOBS) -m 'not nightly' tests/unit tests/contract tests/property

protocol: services clients $(VENV)/.dev  ## live processes and real clients
	$(BIN)/python -m pytest -q -m 'not nightly' tests/protocol tests/clients

probe: services $(VENV)/.dev  ## real processes, file systems and faults
	$(BIN)/python -m pytest -q -m 'not nightly' tests/probe

# Foreign clients in environments of their own; without them their tests skip.
clients: $(VENV)/.dev  ## install the clients of the ordinary suite that must not share our environment
	@$(BIN)/python -m tests.clients.environments || echo "not installed: the clients of tests/clients; their tests will skip"

# S3TESTS: folder of a checkout of ceph/s3-tests. S3PYTHON: an interpreter that has its requirements; else one is made.
compat: $(VENV)/.dev  ## run Ceph's s3-tests (S3TESTS=folder) and write the compatibility ledger
	@test -d "$(S3TESTS)" || { echo "say where a checkout of ceph/s3-tests is: make compat S3TESTS=..."; exit 1; }
	$(BIN)/python -m compatibility $(S3TESTS) $(if $(S3PYTHON),--python $(S3PYTHON)) $(OPTIONS)

nightly: services $(VENV)/.dev  ## the suite at full size
	ISOTHERM_NIGHTLY=1 $(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup tests

bench: services $(VENV)/.bench  ## ours and the peers side by side; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

image:  ## build the container image
	docker build -t isotherm:$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) .

# A throwaway environment and no constraints: what the installed one has grown by does not get in.
lock: $(BIN)/python  ## resolve every dependency anew and write requirements.lock
	rm -rf $(VENV)/lock
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install --quiet --upgrade setuptools
	$(VENV)/lock/bin/pip install --quiet '.[postgres,dev,bench]'
	$(VENV)/lock/bin/pip freeze --all --exclude isotherm --exclude pip --exclude wheel > requirements.lock
	rm -rf $(VENV)/lock build

ratchet: $(VENV)/.dev  ## write the counts of waivers after adding or removing one
	$(BIN)/python -m tests.architecture.ratchet

clean:  ## remove the environment and caches (not the data)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
