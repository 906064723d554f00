# Needs Python 3.11 or newer and make. Everything is installed into .venv, nothing elsewhere.
# Another Python:      PYTHON=python3.12 make test
# Arguments to pytest: make test ARGS="-k gather -x"
# Tests run two at a time; one after the other, as a debugger needs it: make test ARGS="-n0 --pdb"

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

# The stamps carry the Python version and the folder: a .venv made by another Python or copied
# from elsewhere is made anew instead of quietly running the wrong code.
TAG := $(shell $(PYTHON) -c 'import os, sys, zlib; \
	print("%d.%d-%08x" % (*sys.version_info[:2], zlib.crc32(os.getcwd().encode())))' 2>/dev/null)
CORE := $(VENV)/.core-$(TAG)
DEV := $(VENV)/.dev-$(TAG)
PIP := $(BIN)/python -m pip install -qq -c constraints.txt

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Ray: no usage reports, no metrics agent, no repeated-line folding; its own token check stays on.
export RAY_USAGE_STATS_ENABLED := 0
export RAY_enable_metrics_collection := 0
export RAY_DEDUP_LOGS := 0
export RAY_AUTH_MODE ?= token

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help train test test-slow gate coverage check format docs bench bench-page bench-core loc clean

help: ## show this list
	@echo "make targets:"
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) \
		| while IFS='|' read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

train: $(CORE) ## train PPO on CartPole on this machine's cores
	$(BIN)/rillflow train ppo CartPole-v1 --until return=475,steps=400k --num-workers 2 $(ARGS)

test: $(DEV) ## run the tests, except the slow ones
	$(BIN)/python -m pytest -n 2 -m "not slow" $(ARGS)

test-slow: $(DEV) ## run the slow tests
	$(BIN)/python -m pytest -m slow $(ARGS)

gate: $(DEV) ## attempt an algorithm's learning goals with five seeds: make gate sac
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/gate.py $(filter-out gate,$(MAKECMDGOALS)) $(ARGS)

# of `make gate sac`, sac is a name and no target
ifeq (gate,$(firstword $(MAKECMDGOALS)))
$(filter-out gate,$(MAKECMDGOALS)):
	@:
endif

coverage: $(DEV) ## run the tests with branch coverage, worker processes included
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not slow" $(ARGS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

check: $(DEV) ## lint, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

format: $(DEV) ## apply formatting and the safe lint fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV) ## ask all benchmarks; some: make bench ARGS="--only ppo_cartpole --quick"
	$(BIN)/python benchmarks/suite.py $(ARGS)

bench-page: $(DEV) ## draw the benchmarks' page from their saved results
	$(BIN)/python docs/make_benchmarks.py $(ARGS)

bench-core: $(DEV) ## measure the dataflow core
	$(BIN)/python benchmarks/core.py $(ARGS)

docs: $(DEV) ## build the documentation into build/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "open build/docs/index.html"

loc: $(CORE) ## count the lines of each algorithm, beside the paper's
	$(BIN)/python benchmarks/loc.py $(ARGS)

clean: ## remove .venv, caches and build outputs
	rm -rf $(VENV) build dist htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name '*.egg-info' -type d -prune -exec rm -rf {} +

# --- installation: only when pyproject.toml or constraints.txt has changed -----------------------

$(VENV)/.made-$(TAG):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "rillflow needs Python 3.11 or newer: PYTHON=python3.12 make ..."; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(CORE): pyproject.toml constraints.txt | $(VENV)/.made-$(TAG)
	@echo "installing rillflow into $(VENV)"
	@$(PIP) -e '.[plot]'
	@touch $@

# The dev install contains the core, so it stamps both: `make train` after `make test` is offline.
$(DEV): pyproject.toml constraints.txt | $(VENV)/.made-$(TAG)
	@echo "installing rillflow and its development tools into $(VENV) (a minute the first time)"
	@$(PIP) -e '.[dev]'
	@touch $(CORE) $@
