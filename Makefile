# antecede: `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements/lock.txt
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv installs three times as fast as pip, but does not read pip's configuration: hand it pip's index.
INDEX = index=$$($(BIN)/python -m pip config get global.index-url 2>/dev/null || echo "$$PIP_INDEX_URL"); \
  test -z "$$index" || export UV_DEFAULT_INDEX="$$index";
ARGS ?=
# Some machines forbid Python to keep compiled modules; every program that a test starts would take four times as long to load.
unexport PYTHONDONTWRITEBYTECODE
# Random tests, which try much more if ANTECEDE_TIMES is set.
RANDOM := $(addprefix tests/,audit/test_windows.py audit/test_engines.py check/test_explore.py inbox/test_durable.py \
  net/test_churn.py net/test_voting.py protocols reorder/test_machine.py wire)

.DEFAULT_GOAL := help
.PHONY: help setup study test coverage check format bench explore fuzz soak docs lock clean

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with pinned versions (does nothing if it is up to date)

$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "antecede needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dependencies into $(VENV) (once; a minute or two) ..."
	@sed -n '/^uv==/,/[^\\]$$/p' $(LOCK) >$(VENV)/uv.txt
	@$(PIP) --require-hashes -r $(VENV)/uv.txt
	@$(INDEX) $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r $(LOCK) || \
	  { echo "uv failed; installing with pip (a few minutes) ..."; $(PIP) --require-hashes -r $(LOCK); }
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP) --no-deps --no-build-isolation --editable .
	@echo "compiling kernels (once; half a minute) ..."
	@$(BIN)/python -c 'from antecede import sim; sim.warm()'
	@touch $(STAMP)

study: setup ## compare the protocols (ARGS="..." goes to `antecede study`)
	@$(BIN)/antecede study $(ARGS)

test: setup ## run the tests (at most 10 minutes on two cores)
	@$(BIN)/python -m pytest -n 3 $(ARGS)

coverage: setup ## measure the branch coverage of endpoint, protocols, check, wire and net (slow)
	@$(BIN)/python -m coverage erase
	@$(BIN)/python -m coverage run -m pytest -q -n 2 tests/endpoint tests/protocols tests/check tests/wire \
	  tests/net tests/scenarios tests/examples --ignore-glob='*soak.py' $(ARGS)
	@$(BIN)/python -m coverage combine --quiet
	@for part in endpoint protocols check wire net; do \
	  $(BIN)/python -m coverage report --include="src/antecede/$$part/*" --skip-covered --fail-under=95 || exit 1; \
	done

check: setup ## check format, lint, types and imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=src $(BIN)/lint-imports --no-cache

format: setup ## format all files and fix what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## run the benchmarks (ARGS="..." selects some)
	@$(BIN)/python -m benchmarks $(ARGS)

explore: setup ## explore 3 processes x 4 messages for every protocol (slow)
	@$(BIN)/python -m antecede.check.explore --processes 3 --messages 4 $(ARGS)
	@$(BIN)/python -m tests.inbox.explore
	@$(BIN)/python -m tests.logs.model --runs 20000
	@$(BIN)/python -m tests.replicas.explorer 3 3 0
	@$(BIN)/python -m tests.replicas.explorer 3 3 0 full

fuzz: setup ## damaged bytes for the Codec and for nodes, damaged logs for readers, ten minutes each
	@$(BIN)/python -m tests.wire.fuzz --seconds 600 $(ARGS)
	@$(BIN)/python -m tests.net.fuzz --seconds 600 $(ARGS)
	@$(BIN)/python -m tests.events.fuzz --seconds 600 $(ARGS)

soak: setup ## run protocols, nodes and reorder for long: state that must not grow, kills (slow)
	@$(BIN)/python -m tests.protocols.soak
	@$(BIN)/python -m antecede.check.campaign --scripts 20000
	@$(BIN)/python -m pytest -q benchmarks
	@ANTECEDE_TIMES=30 $(BIN)/python -m pytest -q -n 2 $(RANDOM)
	@$(BIN)/python -m tests.audit.campaign --histories 20000
	@ANTECEDE_KILLS=12 $(BIN)/python -m pytest -q tests/reorder/test_reorder_cli.py tests/reorder/test_positions.py -k killed
	@$(BIN)/python -m tests.reorder.soak
	@$(BIN)/python -m tests.net.soak --seconds 600
	@$(BIN)/python -m tests.net.nats_soak --seconds 600
	@$(BIN)/python -m tests.net.soak --changes --seconds 600
	@$(BIN)/python -m tests.net.schedules --seconds 600
	@$(BIN)/python -m tests.net.churn --seconds 600
	@$(BIN)/python -m tests.inbox.soak --store sqlite --seconds 600
	@$(BIN)/python -m tests.inbox.soak --store postgresql --seconds 600
	@$(BIN)/python -m tests.inbox.soak --store postgresql --steps
	@$(BIN)/python -m tests.logs.shop --client confluent --seconds 600
	@$(BIN)/python -m tests.logs.shop --client aiokafka --seconds 600
	@$(BIN)/python -m tests.logs.shop --client nats --seconds 600

docs: setup ## write the generated pages and build the site in site/
	@$(BIN)/python -m tools.pages
	@$(BIN)/zensical build --clean --strict

lock: setup ## pin versions and hashes again, without addresses
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --all-extras --group dev pyproject.toml --output-file $(LOCK)

clean: ## remove what was built, but no results
	@rm -rf $(VENV) build site .cache .mypy_cache .ruff_cache .pytest_cache
