# Each target sets up what it needs and can be run again. As root: the test bed makes network namespaces.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
MAKEFLAGS += --no-print-directory
# daemons' programs; a plain user's path, and that of `su`, lacks them
export PATH := $(PATH):/usr/sbin:/sbin

TEST := $(PYTHON) -m pytest $(if $(STORE),--store $(STORE))

.PHONY: help root setup demo demo-down test test-parts test-daemons test-planes check explore soak bench clean lock format-check lint types imports commits unit unit-agent unit-ofnet unit-rest

help:
	@echo 'make demo         run the whole system on this machine and show pods reaching each other'
	@echo 'make demo KEEP=1  the same, and leave it up; make demo-down ends it'
	@echo 'make demo SECURE=1   the same, with TLS between all daemons'
	@echo 'make test         every test, on real etcd, consul, Open vSwitch and docker'
	@echo 'make test STORE=consul   the same, on consul where it is on etcd'
	@echo 'make check        format, lint, types, import contracts, commit messages, all unit tests: under a minute'
	@echo 'make explore      property tests on other examples each time, ROUNDS=10 of them'
	@echo 'make soak         random policies under load in all modes, SOAK_ROUNDS=20 of them in each, SOAK_SEED=1'
	@echo 'make bench        our speed beside a reference'
	@echo 'make setup        Debian packages and .venv (the others do this themselves)'
	@echo 'make lock         write requirements.lock anew'
	@echo 'make clean        remove .venv, caches and a demo that is left up'

root:
	@[ "$$(id -u)" = 0 ] || { echo "network namespaces need root; try: sudo make $(MAKECMDGOALS)" >&2; exit 1; }

setup:
	@scripts/setup

demo: root setup
	@$(PYTHON) -m tests.bed.demo $(if $(KEEP),up,run)

demo-down:
	@if [ -x $(PYTHON) ]; then $(PYTHON) -m tests.bed.demo down; else echo 'demo: none is up'; fi

# Three parts side by side, since most of what tests do is wait. RECHECK=yes: what failed is tried once more, when its
# part is through, as in Open vSwitch's own test suite. Both runs are printed.
test: root setup
	@$(MAKE) -j3 -k test-parts test-daemons test-planes

test-parts: TESTS := $(filter-out tests/system/,$(wildcard tests/*/))
test-daemons: TESTS := tests/system/faults $(wildcard tests/system/test_[a-l]*.py)
test-planes: TESTS := $(wildcard tests/system/test_[m-z]*.py)
test-parts test-daemons test-planes:
	@$(TEST) -o cache_dir=.pytest_cache/$@ $(TESTS) $(if $(RECHECK),|| { [ $$? = 1 ] && \
	  $(TEST) -o cache_dir=.pytest_cache/$@ $(TESTS) --last-failed --last-failed-no-failures=none; })

# The steps are independent: four at a time, for unit tests wait now and then; each one's output in one piece, and all
# of them even if one fails. The slowest come first.
check: setup
	@$(MAKE) -j4 -k --output-sync=target unit-agent unit-rest types unit-ofnet lint imports commits format-check

format-check:
	@$(PYTHON) -m ruff format --check .

lint:
	@$(PYTHON) -m ruff check .

types:
	@$(PYTHON) -m mypy

imports:
	@.venv/bin/lint-imports --no-logo

commits:
	@scripts/check-commits

# three parts that take about as long; a new folder is in the last one
unit: unit-agent unit-ofnet unit-rest

unit-agent: TESTS := tests/unit/netplugin/
unit-ofnet: TESTS := tests/unit/ofnet/
unit-rest: TESTS = $(filter-out tests/unit/netplugin/ tests/unit/ofnet/ %/__pycache__/,$(wildcard tests/unit/*/ tests/unit/test_*.py))
unit-agent unit-ofnet unit-rest:
	@$(PYTHON) -m pytest -q -o cache_dir=.pytest_cache/$@ $(TESTS)

# a failure of one round is kept in .hypothesis and comes first in the next
explore: ROUNDS ?= 10
explore: setup
	@for round in $$(seq $(ROUNDS)); do \
	  $(PYTHON) -m pytest -q --hypothesis-profile=explore --timeout=900 tests/property; \
	  $(PYTHON) -m pytest -q --hypothesis-profile=explore --timeout=900 -m hypothesis tests/unit; done

# minutes of real packets; not part of `make test`
soak: root setup
	@$(PYTHON) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/soak.py

bench: root setup
	@$(PYTHON) -m bench

lock: setup
	@scripts/lock

clean: demo-down
	@rm -rf .venv .run build *.egg-info .coverage .*_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +
