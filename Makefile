# Everything works on a machine with only Python 3.11+ and make; each target makes its own .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# pip shows its own progress on a terminal; a log gets our line alone. A .venv that another tool made may have no pip.
PIP_INSTALL = { $(BIN)/python -m pip --version || $(BIN)/python -m ensurepip; } > /dev/null 2>&1; $(BIN)/python -m pip install --disable-pip-version-check $$(test -t 2 || echo --quiet)
# `make test T=tests/unit` runs a part.
T      ?= tests

.PHONY: help demo test test-wheel test-agents guards check format docs costs screens page-screens chaos sleeps fuzz shims bench bench-parts bench-agents bench-feed soak coverage clean
help:
	@echo "make demo      a scripted fleet through the real processes and a real server"
	@echo "make test      all tests but the long sizes; TIMED=1 also holds them to their figures in seconds"
	@echo "make test-wheel  the newcomer's tests with the built wheel in a clean environment"
	@echo "make test-agents  real agent programs (npm) against a scripted model"
	@echo "make guards    how well the guard packs judge the corpora, by group"
	@echo "make check     ruff and mypy --strict"
	@echo "make screens   make the pictures in docs/screens/ anew, from the product itself"
	@echo "make page-screens  the same for the pages, in a real Chromium"
	@echo "make docs      write the references in docs/ and the table of the guard packs anew"
	@echo "make chaos     the full sizes: kills, cuts, pauses, counted"
	@echo "make sleeps    a laptop that sleeps and wakes 2,000 times: nothing leaks"
	@echo "make fuzz      many more generated calls of a gateway, and mutated answer files and replies for the hook commands, and all generated examples of the unit tests"
	@echo "make shims     the tests that need one of the two hook commands, with the one that make test leaves out"
	@echo "make bench-feed  1,000 clients of the live feed: CPU, memory, delays"
	@echo "make soak      a gateway under mixed load for ten minutes: whether its memory is flat"
	@echo "make bench     what it costs against bare libraries, ratios first"
	@echo "make bench-parts  whether the parts of the bench run that start the most processes"
	@echo "make bench-agents  how much longer a tool call takes in real agent programs (npm) with hooks than without"
	@echo "make costs     measure the ranges of docs/costs.md, for about an hour"
	@echo "make coverage  the tests with branch coverage"
	@echo "make clean     removes the virtual environment and caches"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Fleethook needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "First run: making a virtual environment in $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml $(VENV)/bin/python
	@echo "Installing Fleethook with its server into $(VENV); this takes about half a minute ..."
	@$(PIP_INSTALL) --editable '.[server]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/bin/python
	@echo "Installing Fleethook with its tools for development into $(VENV); this takes about a minute ..."
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run
	@$(BIN)/fleethook demo

# Eight processes on two cores: much of their time they wait for a server, a claim or a back-off. On Linux they are forked from one
# that has collected the tests (tests/support/processes.py); elsewhere pytest-xdist starts them. Without bytecode files pytest
# would compile the plugins and tests again before each run, in one process, for several seconds.
test: $(VENV)/.dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(T) -m 'not slow and not agents' $(if $(filter Linux,$(shell uname)),--processes 8,--numprocesses 6 --dist loadfile)

# The README's own lines make the environment in a clean home. Then the wheel, built by itself, replaces the package. Only the
# tests are copied beside it, so `bus` and `workers` are the installed ones; the first line of Python says so.
test-wheel:
	@set -eu; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	sed -n 's/^\$$ \(.*fleethook-venv.*\)/\1/p' README.md > "$$folder/install.sh"; \
	HOME="$$folder" sh -eux "$$folder/install.sh"; bin="$$folder/.fleethook-venv/bin"; \
	"$$bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$$folder" .; \
	"$$bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$$folder"/fleethook-*.whl; \
	"$$bin/pip" install --quiet --disable-pip-version-check pytest pytest-asyncio pytest-timeout hypothesis; \
	cp -r tests examples pyproject.toml "$$folder"; cd "$$folder"; \
	"$$bin/python" -c 'import bus, sys, workers; assert bus.__file__.startswith(sys.prefix) and workers.__file__.startswith(sys.prefix)'; \
	"$$bin/fleethook" --version; \
	"$$bin/python" -m pytest tests/fundamentals

# Real agent programs, from npm into a cache outside the tree; `make test-agents A="codex gemini"` runs some of them.
test-agents: $(VENV)/.dev
	FLEETHOOK_AGENTS="$(A)" $(BIN)/python -m pytest tests/agents

# The lines of the held-out part stay unread: no rule is written with them (tests/corpora/README.md).
guards: $(VENV)/.run
	@for part in development fleethook-itself held-out; do \
	  echo "$$part"; set --; \
	  if [ $$part = held-out ]; then set -- --figures $(foreach file,$(wildcard tests/corpora/development/*.jsonl),--without $(file)); fi; \
	  for file in tests/corpora/$$part/*.jsonl; do set -- "$$@" --corpus "$$file"; done; \
	  $(BIN)/fleethook guards test --pack destructive-commands --pack fleethook-itself "$$@" || exit; \
	done
	@for file in tests/corpora/packs/*/*.jsonl; do \
	  echo "$$file"; set --; case $$file in */held-out/*) set -- --figures;; esac; \
	  $(BIN)/fleethook guards test --pack "$$(basename "$$file" .jsonl)" --corpus "$$file" "$$@" || exit; \
	done

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.dev
	$(BIN)/python -m bus.hooksets.guards.needle_table
	$(BIN)/python -m docs.reference

# About an hour on a machine that does nothing else. Fewer runs: `make costs COSTS="--demo 3 --bench 1"`; see docs/measure_costs.py.
costs: $(VENV)/.dev
	$(BIN)/python -m docs.measure_costs $(COSTS)

screens: $(VENV)/.dev
	$(BIN)/python -m docs.make_screens

page-screens: $(VENV)/.dev
	$(BIN)/python -m docs.make_page_screens

chaos: $(VENV)/.dev
	TIMED=1 $(BIN)/python -m pytest tests/chaos tests/live -m 'chaos or slow' --timeout 1800 -s

# A month-long laptop: `fleethook up` stopped and resumed as a whole 2,000 times, in about ten minutes.
sleeps: $(VENV)/.dev
	$(BIN)/python -m pytest tests/chaos/test_sleeps.py -n 0 --timeout 1800 -s

# 1,000 held calls while evaluators, gateways and the server are killed: none lost, none answered twice, no wrong state.
chaos-approvals: $(VENV)/.dev
	$(BIN)/python -m pytest tests/chaos/test_approvals_killed.py -m 'chaos or slow' -n 0 --timeout 1800 -s

# Ten thousand transitions of workflows, while workers are killed; about five minutes.
chaos-workflows: $(VENV)/.dev
	$(BIN)/python -m pytest tests/chaos/test_workflows_killed.py -m 'chaos or slow' -n 0 --timeout 1800 -s

# Fifty random calls of each path instead of none; 200 mutations of each kind for both hook commands instead of eight; and
# each property of the unit tests on more than twice as many generated examples (tests/support/examples.py).
SAMPLED = tests/unit/bus/hooksets/test_sieve.py tests/unit/bus/hooksets/guards/test_figures.py tests/unit/bus/shell/test_plain_lines.py tests/flow/gateway/test_hook_command.py
fuzz: $(VENV)/.dev
	$(BIN)/python -m pytest tests/flow/gateway/test_openapi.py -m slow -n 0
	$(BIN)/python -m pytest tests/live/bus/shim/test_native.py -m slow -n 2 --timeout 1800
	EXAMPLES=all $(BIN)/python -m pytest tests/unit tests/live/workers/test_housekeeping.py -m hypothesis -n 2 --dist loadfile
	EXAMPLES=all $(BIN)/python -m pytest $(SAMPLED) -n 2 --dist loadfile

# Tests of what answers a hook command, with the one of both hook commands that `make test` leaves out.
shims: $(VENV)/.dev
	$(BIN)/python -m pytest tests/flow -m 'one_shim and slow' -n 2 --dist loadfile

bench: $(VENV)/.dev
	$(BIN)/fleethook bench

# The parts of the bench that `make test` leaves out, in small sizes: whether they run, and what they are called.
bench-parts: $(VENV)/.dev
	$(BIN)/python -m pytest tests/flow/cli/test_bench.py -m slow -n 0

# Real agent programs, with hooks and without, in turn; three minutes each. `make bench-agents A=claude ROUNDS=9` measures one.
bench-agents: $(VENV)/.dev
	$(BIN)/python -m tests.agents.bench $(A) --rounds $(or $(ROUNDS),5)

# The live feed with 1,000 clients, in two minutes. Other sizes: `make bench-feed FEED="--clients 100 --rate 50"`.
bench-feed: $(VENV)/.dev
	$(BIN)/python -m docs.measure_feed $(FEED)

# A gateway under mixed load. Shorter: `make soak SOAK="--minutes 2"`.
soak: $(VENV)/.dev
	$(BIN)/python -m docs.measure_load $(SOAK)

coverage: $(VENV)/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(T) -m 'not slow and not agents' --numprocesses 6 --dist loadfile
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .coverage*
