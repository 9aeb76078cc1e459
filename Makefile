# SPDX-License-Identifier: Apache-2.0
# Each target sets up what it lacks and does nothing twice. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-builtin-rules
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
PYTHON_PACKAGES := python3 python3-venv python3-apt ca-certificates

CLANG ?= clang
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -Iagents/include \
	-idirafter /usr/include/$(shell uname -m)-linux-gnu
CFLAGS := -O2 -g -Wall -Wextra -Werror -Iagents/include

BPF_SOURCES := $(shell find agents -name '*.bpf.c')
BPF_OBJECTS := $(patsubst %.c,agents/_objects/%.o,$(notdir $(BPF_SOURCES)))
DRAINER_SOURCES := $(wildcard agents/switch/drainer/*.c)
DRAINER := $(if $(DRAINER_SOURCES),agents/_objects/drainer)
C_FILES := $(shell find agents -name '*.[ch]')
vpath %.bpf.c $(sort $(dir $(BPF_SOURCES)))

# What the machine was given lasts until it restarts: /run and its mounts do not survive that.
BOOT := $(shell cat /proc/sys/kernel/random/boot_id)
HOST_READY := build/host-ready-$(BOOT)
TEST_TOOLS_READY := build/test-tools-ready-$(BOOT)
TIERS ?= unit bpf netns e2e

.PHONY: help setup demo test test-tools check bench pictures bpf abi abi-check dashboards image lock clean
help:
	@echo "sudo make setup   system packages, Python environment, BPF objects, node image"
	@echo "sudo make demo    all of that, then a lab, a link flap and its verdict"
	@echo "sudo make test    every test; TIERS='unit bpf' chooses from: unit bpf netns e2e"
	@echo "make check        ruff, mypy, import-linter, clang-format, ABI, playbook syntax"
	@echo "sudo make bench   the figures of docs/performance.md"
	@echo "sudo make pictures  docs/images anew"
	@echo "make bpf | abi    compile the BPF programs | regenerate agents/wire_abi.py"
	@echo "make dashboards   write dashboards/json anew"
	@echo "make lock         refresh requirements.lock"
	@echo "make clean        remove what was built; runs/ stays"

setup: $(VENV)/.synced $(HOST_READY)
	@$(MAKE) --no-print-directory bpf image

demo: setup
	@$(BIN)/mrc-testbed demo

test: setup test-tools
	@failed=; for tier in $(TIERS); do \
		echo "== $$tier"; $(BIN)/pytest tests/$$tier || failed="$$failed $$tier"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

test-tools: $(TEST_TOOLS_READY)

check: $(VENV)/.synced
	@failed=; try() { local name=$$1; shift; echo "== $$name"; "$$@" || failed="$$failed $$name"; }; \
	try ruff $(BIN)/ruff check .; \
	try ruff-format $(BIN)/ruff format --check --quiet .; \
	try mypy $(BIN)/mypy; \
	try import-linter $(BIN)/lint-imports --no-logo; \
	try clang-format $(BIN)/clang-format --dry-run -Werror $(C_FILES); \
	try abi $(MAKE) --no-print-directory abi-check; \
	try playbooks $(BIN)/ansible-playbook --syntax-check --inventory localhost, $(wildcard playbooks/*.yaml); \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

pictures: setup test-tools
	@PYTHONPATH=tests $(BIN)/python tests/e2e/browser/pictures.py

bench: setup test-tools
	@$(BIN)/python -m benchmarks

# ---- Python ---------------------------------------------------------------------------------

$(VENV)/.synced: requirements.lock pyproject.toml
	@missing=; for package in $(PYTHON_PACKAGES); do \
		dpkg-query --show --showformat='$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed \
			|| missing="$$missing $$package"; \
	done; \
	if [ -n "$$missing" ]; then \
		[ $$(id -u) = 0 ] || { echo "run sudo make setup: missing packages:$$missing" >&2; exit 3; }; \
		echo "installing$$missing"; \
		export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes; \
		apt-get -qq update; \
		apt-get -qq install --no-install-recommends $$missing >/dev/null; \
	fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	@$(BIN)/python -c '' 2>/dev/null && $(BIN)/uv --version >/dev/null 2>&1 || { \
		rm -rf $(VENV); $(PYTHON) -m venv $(VENV); mkdir -p build; \
		sed -n '/^uv==/,/[^\\]$$/p' requirements.lock > build/uv.txt; \
		$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r build/uv.txt; }
	@echo "installing the locked Python packages"
	@export VIRTUAL_ENV=$(VENV) UV_SYSTEM_CERTS=true; \
		$(BIN)/uv pip sync --quiet --require-hashes requirements.lock; \
		$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

lock: $(VENV)/.synced
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --upgrade --group dev --group bench --group build --output-file requirements.lock pyproject.toml

dashboards: $(VENV)/.synced
	@$(BIN)/python -m dashboards

# ---- the machine ----------------------------------------------------------------------------

$(HOST_READY): playbooks/host.yaml | $(VENV)/.synced
	@echo "preparing the machine"
	@$(BIN)/mrc-testbed -v host prepare
	@mkdir -p build && touch $@

$(TEST_TOOLS_READY): playbooks/host.yaml | $(HOST_READY)
	@echo "installing what only tests use"
	@$(BIN)/mrc-testbed -v host prepare --with-test-tools
	@$(MAKE) --no-print-directory image
	@mkdir -p build && touch $@

image: $(VENV)/.synced
	@if timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then \
		$(BIN)/mrc-testbed -v image build; \
	else \
		echo "no Docker Engine answers: no node image, labs run in network namespaces"; \
	fi

# ---- what runs in the kernel ----------------------------------------------------------------

bpf: $(BPF_OBJECTS) $(DRAINER)
	@:

agents/_objects/%.bpf.o: %.bpf.c Makefile
	@mkdir -p $(@D)
	@echo "compiling $(@F)"
	@$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

agents/_objects/drainer: $(DRAINER_SOURCES) Makefile
	@mkdir -p $(@D)
	@echo "compiling $(@F)"
	@$(CLANG) $(CFLAGS) -MMD -MP -MF $@.d -o $@ $(DRAINER_SOURCES) -lbpf

-include $(wildcard agents/_objects/*.d)

build/wire_abi.py: agents/_objects/abi.bpf.o agents/abi_generate.py $(VENV)/.synced
	@mkdir -p $(@D)
	$(BIN)/python -m agents.abi_generate $< > $@

abi: build/wire_abi.py
	cp $< agents/wire_abi.py

abi-check: build/wire_abi.py
	diff -u agents/wire_abi.py $<

clean:
	rm -rf build agents/_objects .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache $(VENV)
	find agents testbed tests benchmarks -name __pycache__ -prune -exec rm -rf {} +
