# Each target sets up what it needs and can be run again. As root: the test bed makes network namespaces.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
MAKEFLAGS += --no-print-directory
# daemons' programs; a plain user's path, and that of `su`, lacks them
export PATH := $(PATH):/usr/sbin:/sbin

# tests start hundreds of processes, and each would compile all modules anew
unexport PYTHONDONTWRITEBYTECODE

# the tree of release 0.1.0
OLD ?= aa5f26e

TEST := $(PY) -m pytest $(if $(STORE),--store $(STORE))

.PHONY: help root setup demo demo-down test test-thorough test-units test-masters test-parts test-faults test-system-a-c test-system-d-h test-system-i-m test-system-n-o test-system-p test-system-q-s test-system-t-z check explore soak faults bench audit clean lock install uninstall deb docs coverage release release-check install-check image-check format-check lint types imports commits unit unit-agent unit-ofnet unit-rest image manifests e2e-k8s conformance spread overload break-check docker-cycles families-check sticky-check upgrade-check kernel-check kube-proxy-answers docker-plugin contivk8s swarm-check trace-check alerts-check ui-check clients-check bench-scale long-run adversary matrix

help:
	@echo 'make demo         run the whole system on this machine and show pods reaching each other'
	@echo 'make demo KEEP=1  the same, and leave it up; make demo-down ends it'
	@echo 'make demo SECURE=1   the same, with TLS between all daemons'
	@echo 'make demo IPV6=1     the same, with IPv6 alone on hosts and pods'
	@echo 'make test         the tests, on real etcd, consul, Open vSwitch and docker'
	@echo 'make test-thorough   what they leave out: tests of minutes, and more combinations of modes'
	@echo 'make test STORE=consul   the same, on consul where it is on etcd'
	@echo 'make check        format, lint, types, import contracts, commit messages, all unit tests: some three minutes'
	@echo 'make explore      every parser with ITERATIONS=20000 mutated inputs, then property tests on other examples each time, ROUNDS=10'
	@echo 'make soak         random policies under load in all modes, SOAK_ROUNDS=20 of them in each, SOAK_SEED=1'
	@echo 'make break-check  a cluster that is broken in some fifty ways, and the one command that names each cause: BREAKS="agent_dead"'
	@echo 'make adversary    attacks from pods, users, agents, the network and the store, with figures; ATTACKS="floods rest"'
	@echo 'make matrix       parts of the tests on other releases of Debian, PARTS="demo services"; the results go into docs/platforms.md'
	@echo 'make long-run     CONTIV_TEST_PODS=10000 pods come and go in CONTIV_TEST_SECONDS=3600 while parts of the cluster fail'
	@echo 'make spread       SPREAD_CONNECTIONS=10000 connections to a service in all modes, TCP, UDP, IPv4 and IPv6'
	@echo 'make trace-check  TRACE_WAYS=100 traces of each case of rules beside real packets, TRACE_BREAKS=50 broken clusters in each mode'
	@echo 'make alerts-check   every alert rule under a real Prometheus, on a cluster that fails as the rule says'
	@echo 'make ui-check     every view of the user interface in headless Chromium, beside 10, 1 000 and 10 000 endpoints'
	@echo 'make clients-check   clients that two generators make from /openapi.json, against a cluster'
	@echo 'make kube-proxy-answers KUBE_PROXY=PROGRAM   record anew what the table of services is compared with'
	@echo 'make faults       clients while masters, store and network fail, OPERATIONS=100000 requests on etcd and on consul;'
	@echo '                  BLOCKS=4: hosts give addresses that they hold ahead'
	@echo 'make families-check  restarts, services and policies on networks of each of FAMILIES="v4 dual v6"'
	@echo 'make sticky-check    restarts of pods that keep their addresses over three hosts with faults, RESTARTS=1000 of them'
	@echo 'make docker-cycles   containers that come and go on two docker engines, CYCLES=200 of them'
	@echo 'make upgrade-check   a rolling upgrade from the commit OLD=$(OLD) to this tree, under traffic'
	@echo 'make kernel-check   the tests that meet Open vSwitch, on the kernel'"'"'s datapath: its kernel runs as a process'
	@echo 'make docker-plugin   the managed plugin for a swarm, into build/docker-plugin'
	@echo 'make swarm-check  a swarm of two docker engines: services on our networks, while agents and engines end'
	@echo 'make bench        our speed beside a reference'
	@echo 'make bench-scale  what each further host costs, SCALE_SIZES="10 100 500 1000" of them'
	@echo 'make contivk8s    the CNI plugin as a static program for x86-64 and arm64, into build/contivk8s'
	@echo 'make install      programs, units, man pages and examples below PREFIX=/usr/local; make uninstall'
	@echo 'make deb          a Debian package in build/'
	@echo 'make install-check   install by package, make and wheel, run by the units, under a real systemd too, and remove'
	@echo 'make release      wheel, source, plugin, Debian package, manifest, images, SBOM and checksums, verified, in build/release;'
	@echo '                  PARTS="python sbom" some of them; make release-check verifies the folder again'
	@echo 'make coverage     which lines unit tests run, in build/coverage'
	@echo 'make docs         the documents as a site, in build/site'
	@echo 'make image        the images of deploy/kubernetes, without a registry, into build/image'
	@echo 'make image-check   run both daemons from the image, by containerd'
	@echo 'make manifests    write deploy/kubernetes/contiv.yaml anew'
	@echo 'make e2e-k8s K8S_BIN=FOLDER   install on a real Kubernetes cluster of three nodes, use it, break it, uninstall;'
	@echo '                  FAMILY=v6, dual or v6-first: nodes, services and pods of IPv6 alone, or of both'
	@echo '                  K8S_NEXT=FOLDER:FOLDER   the next releases of Kubernetes, to which it is upgraded'
	@echo 'make conformance K8S_BIN=FOLDER E2E_BIN=FOLDER   Kubernetes'"'"' own network tests in seven settings;'
	@echo '                  SETTINGS="replace iptables nftables dual-stack coredns ipv6 ipv6-first", PROCS=2 tests at a time, ONLY=PATTERN some of them'
	@echo 'make setup        Debian packages and .venv (the others do this themselves)'
	@echo 'make lock         write requirements.lock anew'
	@echo 'make wheels       whether the locks have wheels for each Python, on x86-64 and ARM64, from pypi.org'
	@echo 'make audit        known vulnerabilities of the packages in requirements.lock, from pypi.org'
	@echo 'make clean        remove .venv, caches and a demo that is left up'

root:
	@[ "$$(id -u)" = 0 ] || { echo "network namespaces need root; try: sudo make $(MAKECMDGOALS)" >&2; exit 1; }

setup:
	@scripts/setup

demo: root setup
	@$(PY) -m tests.bed.demo $(if $(KEEP),up,run)

demo-down:
	@if [ -x $(PY) ]; then $(PY) -m tests.bed.demo down; else echo 'demo: none is up'; fi

# Four parts at a time, since most of what tests do is wait; the longest come first, so that no lane is empty for long.
# A new folder is in test-parts.
# Both run all parts, so that no test is in neither: test-thorough takes what test leaves out (tests/bed/selection.py).
SHARES := test-system-d-h test-units test-masters test-parts test-system-p test-system-q-s test-system-i-m test-system-a-c \
	test-system-t-z test-system-n-o test-faults
test: root setup
	@$(MAKE) -j4 -k SHARE=usual $(SHARES)

test-thorough: root setup
	@$(MAKE) -j4 -k SHARE=thorough $(SHARES)

MASTERS := tests/integration/netmaster/ tests/integration/objdb/
test-units: TESTS := tests/unit/ tests/property/
test-masters: TESTS := $(MASTERS)
test-parts: TESTS := $(filter-out $(MASTERS),$(wildcard tests/integration/*/ tests/integration/test_*.py)) \
	$(filter-out tests/system/ tests/unit/ tests/property/ tests/integration/,$(wildcard tests/*/))
test-faults: TESTS := tests/system/faults
test-system-%: TESTS = $(wildcard tests/system/test_[$(@:test-system-%=%)]*.py)
test-units test-masters test-parts test-faults test-system-a-c test-system-d-h test-system-i-m test-system-n-o test-system-p \
test-system-q-s test-system-t-z:
	@$(TEST) $(if $(SHARE),--share $(SHARE)) -o cache_dir=.pytest_cache/$@ \
	  --junitxml=.run/reports/$@$(SHARE:%=-%).xml $(TESTS)

# The steps are independent: four at a time, for unit tests wait now and then; each one's output in one piece, and all
# of them even if one fails. The slowest come first.
check: setup
	@$(MAKE) -j4 -k --output-sync=target unit-agent unit-rest types unit-ofnet lint imports commits format-check

format-check:
	@$(PY) -m ruff format --check .

lint: setup
	@$(PY) -m ruff check .
	@$(PY) scripts/dead-names

types:
	@$(PY) -m mypy

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
	@$(PY) -m pytest -q -o cache_dir=.pytest_cache/$@ $(TESTS)

# a failure of one round is kept in .hypothesis and comes first in the next
explore: ROUNDS ?= 10
explore: ITERATIONS ?= 20000
explore: GUIDED ?= bgp openflow-body openflow-stream packet dns-question cni-config record
explore:
	@scripts/setup clang=clang '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a=libclang-rt-dev'
	@$(PY) -m tests.fuzz.plugin_in_c -runs=$$((5 * $(ITERATIONS)))
	@ITERATIONS=$(ITERATIONS) $(PY) -m tests.fuzz.runner
	@if $(PY) -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-fuzz.lock; then \
	  for target in $(GUIDED); do $(PY) -m tests.fuzz.guided $$target -runs=$(ITERATIONS) || exit 1; done; \
	else echo 'explore: no atheris for this Python: parsers are not tried guided by coverage' >&2; fi
	@for round in $$(seq $(ROUNDS)); do \
	  $(PY) -m pytest -q --hypothesis-profile=explore --timeout=900 tests/property; \
	  $(PY) -m pytest -q --hypothesis-profile=explore --timeout=900 -m hypothesis tests/unit; done

# an hour with all parts; in roots of other releases of Debian, which are kept in /var/cache/contiv-matrix. RELEASES and
# PARTS are some of those in tests/matrix/releases.py: PARTS="demo services 'other units'". On a machine that does much
# else, BED_PATIENCE=3 lets everything take three times as long
matrix: root
	@scripts/setup mmdebstrap=mmdebstrap
	@$(PY) -m tests.matrix $(if $(RELEASES),--releases $(RELEASES)) $(if $(PARTS),--parts $(PARTS)) \
	  $(if $(WITHIN),--within $(WITHIN))

# minutes of real packets; not part of `make test`
soak: root setup
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/soak.py

# minutes of a leader without processor and disk; not part of `make test`
overload: root setup
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/overload.py

# three quarters of an hour of attacks, from all sides, with figures; not part of `make test`. Places of tests/adversary,
# and tests of `make test` with more of everything; ATTACKS="floods rest" or HELD= are some of them
adversary: ATTACKS ?= floods rest storms wire
adversary: HELD ?= system/test_forgery system/test_pod_guard system/test_host_guard system/test_policies_outside \
  system/test_underlay system/test_fragments system/test_bridge_settings system/test_dataplane_restarts system/test_kills \
  system/test_crashes system/test_bad_input system/test_limits integration/netmaster/test_compromised_agent system/faults/test_faults
adversary: root setup
	@CONTIV_TEST_FRAMES=4000 CONTIV_TEST_OPERATIONS=10000 $(PY) -m pytest -q -p tests.adversary.table \
	  -o cache_dir=.pytest_cache/$@ --timeout=1800 $(ATTACKS:%=tests/adversary/%.py) $(HELD:%=tests/%.py)

# a quarter of an hour of broken clusters; not part of `make test`. The table goes into docs/troubleshooting.md
break-check: root setup
	@$(PY) -m tests.breaks --write $(BREAKS)

# an hour of pods and faults; not part of `make test`
long-run: root setup
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/long_run.py

# minutes: 160 000 connections; not part of `make test`
spread: root setup
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/spread.py

# minutes: traces beside real packets, and of broken clusters; not part of `make test`
trace-check: root setup
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/tracing.py

# minutes of failures under a real Prometheus; not part of `make test`
alerts-check: root setup
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/alerting.py

# minutes in a browser; not part of `make test`. UI_PICTURES=FOLDER keeps pictures of the views
ui-check: root
	@scripts/setup chromium=chromium
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/ui/views.py tests/ui/roles.py tests/ui/hosts.py tests/ui/busy.py

# two minutes, with generators from pypi.org and npmjs.org; not part of `make test`
clients-check: root
	@scripts/setup node=nodejs npm=npm
	@$(PY) -m pytest -q -o cache_dir=.pytest_cache/$@ --timeout=900 tests/clients/generated.py

# what a real kube-proxy answers for the rows of the table of services
kube-proxy-answers: root setup
	@KUBE_PROXY=$(KUBE_PROXY) $(PY) -m pytest -q -o cache_dir=.pytest_cache/$@ tests/system/kube_proxy.py

# the fault suite of `make test`, for as many requests as are wanted, in a tenth as many seconds or more
faults: OPERATIONS ?= 100000
faults: BLOCKS ?= 0
faults: root setup
	@CONTIV_TEST_OPERATIONS=$(OPERATIONS) CONTIV_TEST_BLOCKS=$(BLOCKS) $(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ \
	  -k 'nobody_is_wronged$(if $(STORE), and $(STORE))' tests/system/faults/test_faults.py

# one test of `make test`, with more restarts of pods that keep their addresses
# tests whose networks have other families elsewhere in `make test`
families-check: FAMILIES ?= v4 dual v6
families-check: root setup
	@for family in $(FAMILIES); do echo "families-check: $$family"; CONTIV_TEST_FAMILY=$$family $(PY) -m pytest -q \
	  -o cache_dir=.pytest_cache/$@ tests/system/test_restarts.py tests/system/test_services.py \
	  tests/system/test_policy_windows.py || exit 1; done

sticky-check: RESTARTS ?= 1000
sticky-check: root setup
	@CONTIV_TEST_RESTARTS=$(RESTARTS) $(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ --timeout=14400 \
	  -k no_restart tests/system/test_kept_addresses.py

# one test of `make test`, with more containers
docker-cycles: CYCLES ?= 200
docker-cycles: root setup
	@CONTIV_TEST_CYCLES=$(CYCLES) $(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ \
	  -k many_containers tests/system/test_docker.py

# minutes of two releases side by side; not part of `make test`. OLD is the commit of the older one
upgrade-check: root setup
	@CONTIV_TEST_OLD=$(OLD) $(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/system/upgrade.py

# an hour, with kernels from Debian's source that run as processes; not part of `make test`. RELEASES= and PORTIONS= are others
# of tests/matrix/kernel.py
kernel-check: root
	@scripts/setup gcc=gcc flex=flex bison=bison bc=bc xz=xz-utils mmdebstrap=mmdebstrap
	@.venv/bin/python -m tests.matrix.kernel $(if $(RELEASES),--releases $(RELEASES)) $(if $(PORTIONS),--portions $(PORTIONS))

docker-plugin: setup
	@scripts/docker-plugin

# static, for the machines that nodes are; on x86-64
contivk8s:
	@scripts/setup gcc=gcc gencat=libc6-dev aarch64-linux-gnu-gcc=gcc-aarch64-linux-gnu \
	  /usr/aarch64-linux-gnu/lib/libc.a=libc6-dev-arm64-cross
	@mkdir -p build/contivk8s
	@scripts/contivk8s build/contivk8s/contivk8s-amd64
	@CC=aarch64-linux-gnu-gcc scripts/contivk8s build/contivk8s/contivk8s-arm64

# minutes on two real engines; not part of `make test`
swarm-check: root docker-plugin
	@$(PY) -m pytest -v -o cache_dir=.pytest_cache/$@ tests/system/plugin_proxy.py tests/system/swarm.py

bench: root setup
	@$(PY) -m bench

bench-scale: root setup
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r bench/requirements.lock
	@$(PY) -m bench.scale

image: root
	@scripts/setup buildah=buildah mmdebstrap=mmdebstrap
	@scripts/image

# minutes; not part of `make test`
image-check: image
	@scripts/setup mmdebstrap=mmdebstrap
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/packaging/image.py tests/packaging/quadlets.py

manifests:
	@scripts/manifests

# minutes on a real cluster; not part of `make test`
e2e-k8s: export CONTIV_TEST_FAMILY = $(FAMILY)
e2e-k8s: root image
	@scripts/setup containerd=containerd runc=runc busybox=busybox-static
	@$(PY) -m pytest -v -s -p no:cacheprovider --timeout=900 tests/e2e/kubernetes.py $(if $(FAMILY),,tests/e2e/installs.py)
	@$(PY) -m pytest -v -s -p no:cacheprovider --timeout=1800 tests/e2e/crowd.py
	@$(if $(FAMILY),,$(PY) -m pytest -v -s -p no:cacheprovider --timeout=900 tests/e2e/upgrades.py)

# half an hour and more for each setting; not part of `make test`
conformance: root image
	@scripts/setup containerd=containerd runc=runc busybox=busybox-static mmdebstrap=mmdebstrap
	@$(PY) -m tests.e2e.conformance $(SETTINGS)

lock: setup
	@scripts/lock

# copies what .venv has, for /usr/bin/python3; DESTDIR is for packages, CNI_BIN for contivk8s
install uninstall: PREFIX ?= /usr/local
install uninstall: TREE = scripts/install-tree $@ --destdir '$(or $(DESTDIR),/)' --prefix '$(PREFIX)' \
  $(if $(CNI_BIN),--cni-bin '$(CNI_BIN)') $(if $(PYTHON3),--python '$(PYTHON3)')
install: setup
install uninstall:
	@$(PY) $(TREE)

deb: setup
	@scripts/deb

# of one commit, and as root for the images; the tool of the SBOM comes from the package index
release: setup
	@PARTS='$(PARTS)' scripts/release

release-check:
	@scripts/release --verify

# lines and branches that unit tests run: a table, and pages with the sources
coverage: setup
	@mkdir -p build/coverage
	@COVERAGE_FILE=build/coverage/data $(PY) -m coverage run -m pytest -q -o cache_dir=.pytest_cache/$@ $(or $(COVERED),tests/unit/)
	@COVERAGE_FILE=build/coverage/data $(PY) -m coverage html --quiet --directory build/coverage/pages
	@COVERAGE_FILE=build/coverage/data $(PY) -m coverage report --skip-covered | tee build/coverage/report.txt

docs: setup
	@$(PY) -m mkdocs build --quiet --strict

# minutes; over this machine's files, in roots of their own; the wheel's dependencies come from the package index
install-check: root deb
	@$(PY) -m pytest -s -q -o cache_dir=.pytest_cache/$@ tests/packaging/installed.py tests/packaging/units.py \
	  tests/packaging/network_managers.py tests/packaging/first_steps.py tests/packaging/quick_start.py

# needs the network: do the locks have wheels for every Python, on x86-64 and ARM64
.PHONY: wheels
wheels: setup
	@scripts/wheels

# needs the network: the advisories are at pypi.org
audit: setup
	@scripts/audit

clean: demo-down
	@rm -rf .venv .run build *.egg-info .coverage .*_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +
