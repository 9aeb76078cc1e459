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

AGENTS := agents/mrc_agents
OBJECTS := $(AGENTS)/_objects

CLANG ?= clang
# A folder with cc/NAME.h and ev/NAME.h of one's own: docs/guide/your-own-congestion-control.md. A function of an algorithm need not
# use all that it is given.
ALGORITHMS ?=
# The same sources give the same objects wherever the clone is.
ANYWHERE := -ffile-prefix-map=$(CURDIR)=.
BPF_CFLAGS := $(ANYWHERE) -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -I$(AGENTS)/include -I$(AGENTS) -I$(OBJECTS) \
	-idirafter /usr/include/$(shell uname -m)-linux-gnu
CFLAGS := $(ANYWHERE) -O2 -g -Wall -Wextra -Werror -I$(AGENTS)/include

# Sums are to be the same wherever they are compiled: no multiplication is fused with an addition.
EXACT_SUMS := -ffp-contract=off

# The same programs for virtual time: clang's pragmas and packed headers are theirs, not mistakes.
VIRTUAL_CFLAGS := $(ANYWHERE) -O2 -g
VIRTUAL_FLAGS := -DMRC_VIRTUAL -std=gnu11 -fPIC -fvisibility=hidden -fno-strict-aliasing $(EXACT_SUMS) -Wall -Wextra -Werror \
	-Wno-unknown-pragmas -Wno-address-of-packed-member -Wno-uninitialized -Wno-sign-compare -Wno-unused-command-line-argument -Wno-unused-parameter -Wa,--no-warn \
	-I$(AGENTS)/virtual/shim -I$(AGENTS)/include -I$(AGENTS) -I$(OBJECTS) -I$(AGENTS)/virtual

# PyTorch for `make train` and the tests of mrc-torch, in an environment of its own. Its CPU build has an index of its own, which uv
# knows by --torch-backend; pip takes what it is configured for.
TORCH_VERSION ?= 2.13.0
TORCH_INSTALLER ?= uv
TORCH_VENV := build/torch
TORCH_BY_uv := .venv/bin/uv pip install --python $(TORCH_VENV)/bin/python --torch-backend cpu
TORCH_BY_pip := .venv/bin/python -m pip --disable-pip-version-check --python $(TORCH_VENV)/bin/python install

# Draws the charts of pages, which carry it; the hash is that of its npm package.
UPLOT_VERSION := 1.6.32
UPLOT_INTEGRITY := sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==
UPLOT := testbed/mrc_testbed/report/assets/_uplot
UPLOT_FILES := package/dist/uPlot.iife.min.js package/dist/uPlot.min.css package/LICENSE

BPF_SOURCES := $(shell find $(AGENTS) -name '*.bpf.c')
BPF_OBJECTS := $(patsubst %.c,$(OBJECTS)/%.o,$(notdir $(BPF_SOURCES)))
DRAINER_SOURCES := $(wildcard $(AGENTS)/switch/drainer/*.c)
DRAINER := $(if $(DRAINER_SOURCES),$(OBJECTS)/drainer)
VIRTUAL_SOURCES := $(wildcard $(AGENTS)/virtual/*.c) $(addprefix $(AGENTS)/collectives/,operations.c progress.c reduce.c slots.c virtual.c)
VIRTUAL := $(OBJECTS)/libmrc_virtual.so
VERBS_SOURCES := $(wildcard $(AGENTS)/verbs/*.c $(AGENTS)/libmrc/*.c)
VERBS_VERSIONS := $(AGENTS)/verbs/versions.map
VERBS := $(OBJECTS)/lib_mrc.so
COLLECTIVES_SOURCES := $(filter-out %/virtual.c,$(wildcard $(AGENTS)/collectives/*.c))
COLLECTIVES := $(OBJECTS)/libmrc_coll.so
BPF_HEADERS := $(shell find $(AGENTS)/include/mrc $(AGENTS)/nic $(AGENTS)/queue $(AGENTS)/switch/bpf -name '*.h')
TABLE := $(OBJECTS)/cc_algorithms.h $(OBJECTS)/ev_selectors.h
C_FILES := $(shell find $(AGENTS) benchmarks/ranks -path $(OBJECTS) -prune -o -name '*.[ch]' -print)
vpath %.bpf.c $(sort $(dir $(BPF_SOURCES)))

# What the machine was given lasts until it restarts: /run and its mounts do not survive that.
BOOT := $(shell cat /proc/sys/kernel/random/boot_id)
HOST_READY := build/host-ready-$(BOOT)
TEST_TOOLS_READY := build/test-tools-ready-$(BOOT)
TIERS ?= unit virtual bpf netns e2e
# Per cent of lines and branches that a tier's tests run at least: `make coverage`. Unit had 73 on 2026-11-23.
export FLOOR_unit ?= 70
KERNELS ?= 6.1 6.12 running
KERNEL_PARTS ?= load smoke tests
KERNEL_TESTS ?= tests/bpf

.PHONY: help setup demo train test test-long test-tools check size audit bench kernels budgets pictures bpf charts virtual abi \
	abi-check headers coverage dashboards dashboards-seen dist docs image lock clean torch
help:
	@echo "sudo make setup   system packages, Python environment, BPF objects, node image"
	@echo "sudo make demo    all of that, then a lab, a link flap and its verdict"
	@echo "sudo make train   a PyTorch job on eight hosts, through faults; a page shows what became of it"
	@echo "sudo make test    every test; TIERS='unit bpf' chooses from: unit virtual bpf netns e2e"
	@echo "sudo make test-long  what takes hours: slow tests, tests/long, and new random examples in unit and bpf"
	@echo "make check        ruff, mypy, bandit, words, seccomp, file modes, import-linter, clang-format, headers, ABI, workflows, playbooks, verifiers' budgets"
	@echo "make size         lines, and numbers of things, beside their limits in pyproject.toml"
	@echo "make audit        known vulnerabilities of the locked packages; asks PyPI"
	@echo "sudo make bench   the figures of docs/reference/performance.md"
	@echo "sudo make kernels the programs, tests/bpf and a lab under other kernels; KERNELS='6.1 6.12 running'"
	@echo "sudo make budgets what the programs cost the running kernel's verifier, after a change that is meant"
	@echo "sudo make pictures  redraw docs/images"
	@echo "make bpf | abi    compile the BPF programs | regenerate agents/mrc_agents/abi.py"
	@echo "make charts       fetch the chart library of pages, by npm"
	@echo "make virtual      compile the same programs for virtual time; needs cc alone"
	@echo "make torch        PyTorch's CPU build and mrc-torch, in build/torch"
	@echo "make dashboards   rewrite dashboards/json"
	@echo "sudo make dashboards-seen  draw the dashboards with Grafana's components from live labs, and judge them"
	@echo "make dist         sdist and wheel, in dist/; built twice, in two folders, and compared"
	@echo "make docs         the pages of docs/ as a site in build/site; fails on a broken link"
	@echo "make coverage     what the tests of each tier run, against a floor; TIERS as for test"
	@echo "make lock         refresh requirements.lock"
	@echo "make clean        remove what was built; runs/ stays"

setup: $(VENV)/.synced $(HOST_READY)
	@$(MAKE) --no-print-directory bpf charts image

demo: setup
	@$(BIN)/mrc-testbed demo

# A PyTorch job through faults, and its page; TRAIN='--ranks 4 --ports shaped' takes fewer, `python -m benchmarks.train --help` the rest.
TRAIN ?=
train: setup torch
	@$(BIN)/python -m benchmarks.train $(TRAIN)

# Which tests, as for pytest -m; 'not slow or ci' are those of .ci/run.
MARKS ?= not slow

test: setup test-tools
	@$(BIN)/python -m tests.lanes --marks '$(MARKS)' $(TIERS) -- $(PYTEST_OPTIONS)

# The slow tests, then new random examples, many of them; what fails is kept in tests/corpus and tried first the next time.
test-long: setup test-tools
	@failed=; \
	$(MAKE) --no-print-directory test MARKS=slow || failed=1; \
	$(MAKE) --no-print-directory test TIERS="long unit bpf" PYTEST_OPTIONS="--hypothesis-profile=long --timeout=3600" \
		|| failed=1; \
	[ -z "$$failed" ]

# What the tests of each tier run of testbed/ and agents/, lines and branches. Commands that tests start as processes of
# their own are not counted.
coverage: setup test-tools
	@mkdir -p build/coverage; failed=; \
	for tier in $(TIERS); do \
		floor=FLOOR_$$tier; echo "== $$tier"; \
		$(BIN)/pytest tests/$$tier --quiet --cov --cov-report=xml:build/coverage/$$tier.xml \
			--cov-report=html:build/coverage/$$tier --cov-report= || failed="$$failed $$tier"; \
		$(BIN)/coverage report --format=total --fail-under=$${!floor:-0} || failed="$$failed $$tier"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

test-tools: $(TEST_TOOLS_READY)

# Tests that `make check` runs; .ci/run leaves them to `make test`.
CHECK_TESTS ?= $(addprefix tests/unit/,security agents/test_verbs_reference.py dashboards docs)

check: $(VENV)/.synced bpf charts
	@failed=; try() { local name=$$1; shift; echo "== $$name"; "$$@" || failed="$$failed $$name"; }; \
	try ruff $(BIN)/ruff check .; \
	try ruff-format $(BIN)/ruff format --check --quiet .; \
	try mypy $(BIN)/mypy; \
	try bandit $(BIN)/bandit --quiet --recursive --severity-level medium --confidence-level medium \
		testbed agents dashboards; \
	try import-linter env PYTHONPATH=mrc-torch $(BIN)/lint-imports --no-logo; \
	try clang-format $(BIN)/clang-format --dry-run -Werror $(C_FILES); \
	try headers $(MAKE) --no-print-directory headers; \
	try abi $(MAKE) --no-print-directory abi-check; \
	try actions $(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-actions action.yaml; \
	try workflows $(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows $(wildcard .github/workflows/*.yaml); \
	try playbooks $(BIN)/ansible-playbook --syntax-check --inventory localhost, $(wildcard playbooks/*.yaml); \
	try words $(BIN)/python -m tests.prose; \
	$(if $(CHECK_TESTS),try tests $(BIN)/pytest --quiet $(CHECK_TESTS);) \
	try kernels $(BIN)/python -m tests.kernels check; \
	try size $(BIN)/python -m tests.size --quiet; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

size: $(VENV)/.synced
	@$(BIN)/python -m tests.size

# --strict: a package whose advisories cannot be asked for is a failure, not a pass.
audit: $(VENV)/.synced
	@UV_SYSTEM_CERTS=true $(BIN)/uv tool run --quiet pip-audit@2.10.1 --strict --progress-spinner off \
		--disable-pip --require-hashes --requirement requirements.lock

pictures: setup test-tools
	@PYTHONPATH=tests $(BIN)/python tests/e2e/browser/pictures.py

# Hours for tests/bpf in guests without KVM; KERNEL_PARTS='load smoke' leaves them out.
kernels: setup test-tools
	@$(BIN)/python -m tests.kernels run --keep --kernels $(KERNELS) --parts $(KERNEL_PARTS) --tests $(KERNEL_TESTS)

budgets: setup
	@$(BIN)/python -m tests.kernels record

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
		$(BIN)/uv pip sync --quiet --compile-bytecode --require-hashes requirements.lock; \
		$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q testbed agents
	@touch $@

lock: $(VENV)/.synced
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --upgrade --extra all --group dev --group bench --group docs --group build --output-file requirements.lock pyproject.toml

docs: $(VENV)/.synced
	@mkdir -p build; NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict >build/site.log 2>&1 \
		|| { cat build/site.log >&2; exit 1; }
	@echo "build/site/index.html"

dashboards: $(VENV)/.synced
	@$(BIN)/python -m dashboards

# Grafana's own components draw the dashboards in Chromium from live labs; they are 600 MB of npm packages. SEEN_OPTIONS=--docs renews
# the pictures of docs/images, too. The bundle has their CommonJS files: esbuild mistakes default exports in their ES modules.
GRAFANA_UI := build/grafana-ui
SEEN := tests/e2e/dashboards
dashboards-seen: setup test-tools $(GRAFANA_UI)/.synced
	@export PATH="$$PATH:$(CURDIR)/$(BIN)" NODE_PATH=$(CURDIR)/$(GRAFANA_UI)/node_modules; \
		$$NODE_PATH/.bin/tsc --project $(SEEN); \
		$$NODE_PATH/.bin/esbuild $(SEEN)/draw.tsx --bundle --outfile=$(GRAFANA_UI)/draw.js --log-level=warning \
			--define:process.env.NODE_ENV='"production"' --loader:.svg=dataurl --loader:.ttf=empty \
			$(foreach package,ui data,--alias:@grafana/$(package)=$$NODE_PATH/@grafana/$(package)/dist/cjs/index.cjs)
	@PYTHONPATH=tests:tests/e2e/prometheus $(BIN)/python $(SEEN)/see.py $(SEEN_OPTIONS)

$(GRAFANA_UI)/.synced: $(SEEN)/package-lock.json | $(VENV)/.synced
	@echo "fetching Grafana's components"
	@mkdir -p $(@D) && cp $(SEEN)/package.json $(SEEN)/package-lock.json $(SEEN)/.npmrc $(@D)
	@cd $(@D) && PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci --silent && cp -r node_modules/@grafana/ui/dist/public .
	@touch $@

torch: $(TORCH_VENV)/.synced

$(TORCH_VENV)/.synced: mrc-torch/pyproject.toml | $(VENV)/.synced
	@echo "installing PyTorch for mrc-torch"
	@rm -rf $(TORCH_VENV); $(PYTHON) -m venv --without-pip $(TORCH_VENV)
	@export UV_SYSTEM_CERTS=true; $(TORCH_BY_$(TORCH_INSTALLER)) --quiet numpy expecttest torch==$(TORCH_VERSION); \
		$(BIN)/uv pip install --quiet --python $(TORCH_VENV)/bin/python --editable ./mrc-torch
	@touch $@

# ---- the machine ----------------------------------------------------------------------------

$(HOST_READY): playbooks/host.yaml | $(VENV)/.synced
	@echo "preparing the machine"
	@$(BIN)/mrc-testbed -v setup host
	@mkdir -p build && touch $@

$(TEST_TOOLS_READY): playbooks/host.yaml | $(HOST_READY)
	@echo "installing what only tests use"
	@$(BIN)/mrc-testbed -v setup host --with-test-tools
	@$(MAKE) --no-print-directory image
	@mkdir -p build && touch $@

image: $(VENV)/.synced
	@if timeout 60 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; then \
		$(BIN)/mrc-testbed -v setup image; \
	else \
		echo "no Docker Engine answers: no node image, labs run in network namespaces"; \
	fi

# ---- what pages carry -----------------------------------------------------------------------

charts: $(UPLOT)/$(UPLOT_VERSION)
	@:

# npm is the machine's, else that of the locked packages. What is not as it was when the hash was noted is not unpacked.
$(UPLOT)/$(UPLOT_VERSION): | $(VENV)/.synced
	@echo "fetching uPlot $(UPLOT_VERSION)"
	@rm -rf $(@D) build/uplot; mkdir -p $(@D) build/uplot
	@npm=$$(command -v npm || echo $(BIN)/npm); \
		"$$npm" pack --silent --pack-destination build/uplot uplot@$(UPLOT_VERSION) >build/uplot/log 2>&1 || { \
			cat build/uplot/log >&2; \
			echo "$$npm cannot fetch uplot@$(UPLOT_VERSION): does its registry answer? (npm ping)" >&2; exit 3; }
	@found=sha512-$$($(BIN)/python -c 'import base64, hashlib, sys; \
			print(base64.b64encode(hashlib.sha512(sys.stdin.buffer.read()).digest()).decode())' <build/uplot/*.tgz); \
		[ "$$found" = "$(UPLOT_INTEGRITY)" ] || { echo "uplot@$(UPLOT_VERSION) is not what it was: $$found" >&2; exit 3; }
	@tar -xzf build/uplot/*.tgz --transform 's,.*/,,' -C $(@D) $(UPLOT_FILES)
	@touch $@

# ---- what is installed without a clone ------------------------------------------------------

DIST ?= $(CURDIR)/dist

# The second build starts from the first sdist, in another folder. It fails if the sdist lacks a file, and differs if the folder
# leaves a trace.
dist: $(VENV)/.synced bpf charts
	@rm -rf $(DIST) build/dist; mkdir -p build/dist/source
	@$(BIN)/python -m hatchling build -d $(DIST) >build/dist/log
	@tar -xzf $(DIST)/*.tar.gz -C build/dist/source --strip-components 1
	@cd build/dist/source && $(CURDIR)/$(BIN)/python -m hatchling build -d $(CURDIR)/build/dist/again >>../log
	@diff -r $(DIST) build/dist/again || { echo "built again from the sdist it is not the same" >&2; exit 1; }
	@rm -rf build/dist
	@sha256sum $(DIST)/*

# ---- what runs in the kernel ----------------------------------------------------------------

bpf: $(BPF_OBJECTS) $(DRAINER) $(VIRTUAL) $(VERBS) $(COLLECTIVES)
	@:

# Which algorithms there are is looked up every time; what has not changed is not written, and nothing is compiled again.
.PHONY: FORCE
$(TABLE) &: FORCE
	@$(PYTHON) $(AGENTS)/algorithms.py $(@D) $(ALGORITHMS)

$(OBJECTS)/%.bpf.o: %.bpf.c Makefile | $(TABLE)
	@mkdir -p $(@D)
	@echo "compiling $(@F)"
	@$(CLANG) $(BPF_CFLAGS) -MMD -MP -c $< -o $@

$(OBJECTS)/drainer: $(DRAINER_SOURCES) Makefile
	@mkdir -p $(@D)
	@echo "compiling $(@F)"
	@$(CLANG) $(CFLAGS) -MMD -MP -MF $@.d -o $@ $(DRAINER_SOURCES) -lbpf

# It needs libibverbs though it calls nothing of it: programs that get this library for libibverbs look for the rest there.
$(VERBS): $(VERBS_SOURCES) $(VERBS_VERSIONS) Makefile
	@mkdir -p $(@D)
	@echo "compiling $(@F)"
	@$(CLANG) $(CFLAGS) -std=gnu11 -fPIC -fvisibility=hidden -pthread -shared -Wl,-z,defs,-soname,$(@F) \
		-Wl,--version-script=$(VERBS_VERSIONS) -o $@ $(VERBS_SOURCES) -Wl,--no-as-needed -libverbs
	@$(CLANG) $(CFLAGS) -MM -MP -MT $@ $(VERBS_SOURCES) > $@.d

$(COLLECTIVES): $(COLLECTIVES_SOURCES) Makefile
	@mkdir -p $(@D)
	@echo "compiling $(@F)"
	@$(CLANG) $(CFLAGS) -std=gnu11 -fPIC -fvisibility=hidden $(EXACT_SUMS) -pthread -shared -Wl,-z,defs,-soname,$(@F) \
		-o $@ $(COLLECTIVES_SOURCES) -libverbs
	@$(CLANG) $(CFLAGS) -MM -MP -MT $@ $(COLLECTIVES_SOURCES) > $@.d

virtual: $(VENV)/.synced $(VIRTUAL) charts
	@:

# A map that maps.def does not name would be looked up in vain, silently.
$(VIRTUAL): $(VIRTUAL_SOURCES) $(AGENTS)/virtual/maps.def Makefile | $(TABLE)
	@mkdir -p $(@D)
	@echo "compiling $(@F)"
	@$(CC) $(VIRTUAL_FLAGS) $(VIRTUAL_CFLAGS) -shared -Wl,-z,defs -o $@ $(VIRTUAL_SOURCES)
	@$(CC) $(VIRTUAL_FLAGS) -MM -MP -MT $@ $(VIRTUAL_SOURCES) > $@.d
	@diff <(sed -n 's/^[A-Z]*(\(.*\))$$/\1/p' $(AGENTS)/virtual/maps.def | sort) \
		<(objdump -t $@ | awk '$$4 == ".maps" && $$NF !~ /^[._]/ {print $$NF}' | sort) >&2 \
		|| { rm $@; echo "$(AGENTS)/virtual/maps.def and the maps of the programs differ" >&2; exit 1; }

# What was built from a source that has moved since is built again: make would not find the source.
$(shell for made in $(OBJECTS)/*.d; do \
	for source in $$(grep -ohE '$(AGENTS)/[^ ]+\.c' "$$made" 2>/dev/null); do \
		[ -e "$$source" ] || { rm -f "$$made" "$${made%.d}" "$${made%.d}.o"; break; }; \
	done; done)
-include $(wildcard $(OBJECTS)/*.d)

# Each by itself: what it needs it includes, so that the order of includes means nothing.
headers: $(TABLE)
	@printf '%s\n' $(BPF_HEADERS) | xargs -n 1 -P 2 $(CLANG) $(BPF_CFLAGS) -Wno-unused-function -fsyntax-only

build/abi.py: $(OBJECTS)/abi.bpf.o $(AGENTS)/abi_generate.py $(VENV)/.synced
	@mkdir -p $(@D)
	$(BIN)/python -m mrc_agents.abi_generate $< > $@

abi: build/abi.py
	cp $< $(AGENTS)/abi.py

abi-check: build/abi.py
	diff -u $(AGENTS)/abi.py $<

# agents/_objects and testbed/report are where versions up to 0.3 built.
clean:
	rm -rf build dist $(OBJECTS) agents/_objects $(UPLOT) testbed/report .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache $(VENV)
	find agents testbed tests benchmarks dashboards mrc-torch -name __pycache__ -prune -exec rm -rf {} +
