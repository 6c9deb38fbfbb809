# `make` alone lists the targets. ARGS goes on to the tool behind one: make test ARGS="-k stampede"

PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
STAMP := .venv/.installed
# What the pages are made of; folders too, for they change when a file is gone.
PAGES := src/holdfast/pages/dist/index.html
PAGES_FROM := $(wildcard web/*.json web/*.html web/*.ts) $(shell find web/src web/public 2>/dev/null)
# npm writes this one last, whoever calls it.
MODULES := web/node_modules/.package-lock.json
# Hundreds of short-lived processes are started by the tests: compiled anew each time, each would
# take half as long again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup services web run test check soak bench screenshots lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## create .venv with the locked dependencies

web: $(PAGES) ## build the pages from web/ into the package

run: setup ## the demo: an event on sale at http://127.0.0.1:8000
	@$(pages_if_node)
	@exec .venv/bin/holdfast demo $(if $(PORT),--port "$(PORT)") $(ARGS)

# Many tests wait for servers: three at a time keep two cores busy.
test: setup services ## format, lint, types, then every test but the soak, on real services
	$(static_checks)
	@$(pages_if_node)
	$(web_checks)
	$(PY) -m pytest -n 3 --dist loadgroup $(ARGS)

check: setup ## format, lint, types and the quick tests, in under a minute
	$(static_checks)
	$(PY) -m pytest -n 2 --dist loadgroup -m "not soak and not slow and not service" $(ARGS)

services: setup
	@$(PY) -m tests.services

soak: setup services ## the tests that run for minutes
	$(PY) -m pytest -m soak --timeout 3600 $(ARGS)

bench: setup services ## every figure, on private servers, and docs/benchmarks.md from that run
	@$(pages_if_node)
	@$(PY) -m tests.brokered .venv/bin/holdfast bench --servers --rivals --save \
		--write docs/benchmarks.md $(ARGS)

screenshots: setup services web ## the pictures in docs/pictures, taken from the running pages
	$(PY) -m tests.browser.screenshots

COMPILE = $(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-emit-find-links
# The image gets the versions that were tested, without what only tests need.
SAME = --constraint requirements.lock

lock: ## resolve requirements.lock anew (ARGS=--upgrade for the newest of everything)
	@$(ensure_venv)
	$(PIP) install uv
	$(COMPILE) --all-extras --group dev pyproject.toml --output-file requirements.lock $(ARGS)
	$(COMPILE) --all-extras pyproject.toml $(SAME) --output-file deploy/requirements.txt
	echo hatchling | $(COMPILE) - $(SAME) --output-file deploy/build-requirements.txt

clean: ## remove .venv, caches, build output and the demo's database
	rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf web/node_modules $(dir $(PAGES))
	rm -f holdfast-demo.db*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements.lock pyproject.toml
	@$(ensure_venv)
	@echo "Installing the locked dependencies into .venv"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(MODULES): web/package-lock.json
	@$(need_node)
	@echo "Installing what builds the pages into web/node_modules"
	@cd web && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(PAGES): $(MODULES) $(PAGES_FROM)
	@$(need_node)
	@echo "Building the pages"
	@cd web && npm run --silent build -- --logLevel warn
	@touch $@

define static_checks
$(PY) -m ruff format --check .
$(PY) -m ruff check .
$(PY) -m mypy
endef

# Node.js, as new as web/package.json asks for, and npm. Says in a line what is wanting.
define need_node
node_is=$$(node --version 2>/dev/null || echo missing); \
node -e 'const wanted = require("./web/package.json").engines.node.match(/\d+/g).map(Number); \
	const [major, minor] = process.versions.node.split(".").map(Number); \
	process.exit(major > wanted[0] || (major === wanted[0] && minor >= wanted[1]) ? 0 : 1)' \
	2>/dev/null && npm --version >/dev/null 2>&1 || { \
	wanted=$$(sed -n 's/.*"node": ">=\(.*\)".*/\1/p' web/package.json); \
	echo "The pages need Node.js $$wanted or newer, and npm, to be built (node: $$node_is)" >&2; \
	false; \
}
endef

# A machine without Node.js sells as well: it has the API, and no pages. In CI that is a failure.
define pages_if_node
if $(need_node); then $(MAKE) --silent --no-print-directory web; \
elif [ "$(CI)" = true ] || [ "$(STRICT)" = 1 ]; then false; \
else echo "Going on without the pages" >&2; fi
endef

# Types, format and lint, and the tests of the pages' own pieces.
define web_checks
@if test -e $(MODULES) && command -v npm >/dev/null; then cd web && npm run --silent check; fi
endef

# Debian ships Python without the part that puts pip into a venv, hence the look for ensurepip.
define ensure_venv
$(PY) -m pip --version >/dev/null 2>&1 || { \
	for python in $(or $(PYTHON),python3.11 python3) none; do \
		"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done; \
	if [ "$$python" = none ]; then \
		echo "Holdfast needs Python 3.11 or newer: install it, or name it with PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi; \
	if ! "$$python" -m ensurepip --version >/dev/null 2>&1; then \
		package=$$("$$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "Installing $$package"; \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$$package" >/dev/null; \
		else \
			echo "Python's venv module lacks ensurepip: install it first (Debian, Ubuntu: $$package)" >&2; \
			exit 1; \
		fi || exit 1; \
	fi; \
	"$$python" -m venv --clear .venv; \
}
endef
