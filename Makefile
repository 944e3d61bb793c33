# Everything a clone can do. Needs Python 3.11 or newer, pip and make; the first call makes `.venv`.

PYTHON ?= python3
VENV = .venv
BIN = $(VENV)/bin
OPTIONAL = .venv-optional
MODEL_ENV = .venv-model
VOICE = .venv-voice
MESSENGERS = .venv-messengers

# What `make chat` talks to: any definition, any model that `llm-fsm chat --model` takes.
FSM = fsm_definitions/greeting.json
MODEL = offline
# The real model of `make evaluate`: qwen or smol.
SMALL = qwen
# More arguments for the program behind `chat`, `test` and `bench`, e.g. make test ARGS="-k journal".
ARGS =

# Processes of `make test`: one more than cores, because a third of the time is waiting; at most five.
WORKERS = $(shell $(PYTHON) -c 'import os; print(min(5, (os.cpu_count() or 1) + 1))')
# True where a Node is installed that builds and checks web/.
NODE = node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'

.PHONY: help chat serve test quick optional crash kills services lint docs page bench evaluate wheel clean

help:
	@echo 'make chat      talk to $(FSM) with the model `$(MODEL)`; FSM=… and MODEL=… choose others'
	@echo 'make serve     serve the shipped definitions with the model `$(MODEL)`: a chat page, REST, the OpenAI form, AG-UI, MCP'
	@echo 'make test      run all tests, about twelve minutes on two cores; ARGS="-k journal" chooses'
	@echo 'make quick     run the tests of the rooms that your change against main touches, and of those that import them'
	@echo 'make optional  run the tests with smolagents, ADK, Pipecat, LiveKit, messengers and a small real model, in three environments of their own'
	@echo 'make lint      ruff, mypy --strict, import-linter, our own checker on our own definitions, and oxlint, oxfmt and unit tests on web/'
	@echo 'make docs      build the site of the documents: build/site/index.html works without a server and without network'
	@echo 'make page      build the page of the studio from web/ (Node 20.19 or newer)'
	@echo 'make kills     kill more often than make test does, send the server 5,000 random requests, and translate 1,000 random definitions: the small form of make crash, for CI'
	@echo 'make crash     kill workers 1,000 times on SQLite and on PostgreSQL, and audit what is left'
	@echo 'make services  install what the tests of stores start for themselves: PostgreSQL and Redis (Debian, as root)'
	@echo 'make bench     measure what start-up and a turn cost, and the same beside other systems; ARGS=--quick: ours alone'
	@echo 'make evaluate  play twelve dialogues with a real model of 1.5 billion parameters (1.1 GB), 20 minutes to two hours; SMALL=smol: 93 MB'
	@echo 'make wheel     build the wheel of this checkout into dist/'
	@echo 'make clean     remove .venv and everything else that was made'
	@echo
	@echo 'The first call makes .venv; after `make chat` or `make test` the command is $(BIN)/llm-fsm.'

chat: $(VENV)/.run
	@$(BIN)/llm-fsm chat $(FSM) --model $(MODEL) $(ARGS)

serve: $(VENV)/.serve
	@$(BIN)/llm-fsm serve --model $(MODEL) $(ARGS)

test: $(VENV)/.dev
	@echo 'running the tests: about twelve minutes on two cores'
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# The rooms of the change against main, and the rooms that import them.
quick: $(VENV)/.dev
	@$(BIN)/python tests/support/changed_rooms.py $(ARGS)

# A few minutes each. The second needs PostgreSQL (make services).
# smolagents, Google's ADK, Pipecat and LiveKit are too big for everybody: they have an environment of their own.
optional: $(OPTIONAL)/.made $(VOICE)/.made $(MESSENGERS)/.made
	@OPTIONAL_TESTS=agents $(OPTIONAL)/bin/python -m pytest tests/optional $(ARGS)
	@OPTIONAL_TESTS=voice $(VOICE)/bin/python -m pytest tests/optional $(ARGS)
	@OPTIONAL_TESTS=messengers $(MESSENGERS)/bin/python -m pytest tests/optional $(ARGS)

crash: kills
	@$(BIN)/python tests/crash --store sqlite $(ARGS)
	@$(BIN)/python tests/crash --store postgresql $(ARGS)
	@CRASH_LINES=300 $(BIN)/python -m pytest --timeout 600 -k 'dies or killed' \
		tests/durable tests/cli/commands/test_run_batch.py
	@$(BIN)/python tests/crash/workers.py --store sqlite
	@$(BIN)/python tests/crash/workers.py --store postgresql
	@$(BIN)/python tests/crash/workers.py --stop-store 3 --turns 800
	@$(BIN)/python tests/crash/temporal_kills.py --kills 24 --losses 3
	@LLM_FSM_ZOMBIES=20 $(BIN)/python -m pytest tests/stores/postgresql/test_frozen.py -q
	@LLM_FSM_VOUCHERS=10000 $(BIN)/python -m pytest --timeout 7200 tests/fuzz/test_vouchers.py -q

# The small form of `crash`, which CI runs.
kills: $(VENV)/.dev
	@CRASH_KILLS=6 $(BIN)/python -m pytest --timeout 600 tests/crash tests/server/test_killed.py tests/releases/test_killed.py -k 'kill'
	@LLM_FSM_REQUESTS=5000 $(BIN)/python -m pytest tests/server/test_schemathesis.py
	@LLM_FSM_DEFINITIONS=1000 $(BIN)/python -m pytest --timeout 900 tests/documents/test_translations.py -k same_texts

# The tests start servers of their own, on free loopback ports and in temporary folders, and end them.
services:
	@if ! command -v redis-server >/dev/null || ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then \
		echo 'installing PostgreSQL and Redis' && \
		apt-get update -qq && \
		apt-get install -y -qq --no-install-recommends postgresql redis-server >/dev/null; \
	fi

lint: $(VENV)/.dev
	@echo 'ruff'
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@echo 'mypy --strict'
	@$(BIN)/mypy --no-error-summary
	@echo 'import-linter'
	@said=$$($(BIN)/lint-imports --no-logo) || { echo "$$said"; exit 1; }
	@echo 'llm-fsm validate fsm_definitions'
	@$(BIN)/llm-fsm validate fsm_definitions
	@if $(NODE) 2>/dev/null; then \
		echo 'oxlint, oxfmt and the unit tests of web/' && $(MAKE) --silent web/node_modules/.package-lock.json && \
		cd web && npm run --silent lint && npm run --silent test; \
	else \
		echo 'web/ is not checked: that needs Node 20.19 or newer (https://nodejs.org)'; \
	fi

page: web/node_modules/.package-lock.json
	cd web && npm run build

web/node_modules/.package-lock.json: web/package-lock.json
	@echo 'installing what builds and checks web/, a few seconds'
	@cd web && npm ci --silent --no-audit --no-fund
	@touch $@

docs: $(VENV)/.dev
	@$(BIN)/python -m website.generated
	@$(BIN)/python -m website $(ARGS)

# Compiled first, as an installed package is: PYTHONDONTWRITEBYTECODE would have every process compile the sources again.
bench: $(VENV)/.dev
	@$(BIN)/python -m compileall -q src benchmarks
	@$(BIN)/python -m benchmarks $(ARGS)
ifeq ($(findstring --quick,$(ARGS)),)
	@$(BIN)/python -m benchmarks.beside
endif

# The model has an environment of its own: llama.cpp comes as a wheel, without a compiler.
evaluate: $(VENV)/.dev $(MODEL_ENV)/.made
	@$(BIN)/python -m benchmarks.evaluate $(SMALL) --python $(MODEL_ENV)/bin/python $(ARGS)

wheel: $(VENV)/.dev
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	@echo 'removing $(VENV), $(OPTIONAL), $(VOICE), $(MESSENGERS), $(MODEL_ENV) and everything else that was made'
	@rm -rf $(VENV) $(OPTIONAL) $(VOICE) $(MESSENGERS) $(MODEL_ENV) .bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Debian's Python may come without ensurepip; then its own pip fills the new environment.
$(BIN)/python:
	@echo 'making $(VENV)'
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || \
		{ $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --quiet --python $(BIN)/python install pip; }

# Dependency groups need pip 25.1.
# Each install first removes `llm-fsm`: the former name of this package and the name of another project. Both bring
# the same import and the same command, so pip would leave two packages in one place.
$(VENV)/.pip: | $(BIN)/python
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.run: pyproject.toml | $(VENV)/.pip
	@echo 'installing llm-fsm-runtime into $(VENV), about a minute; the command is $(BIN)/llm-fsm'
	@$(BIN)/python -m pip uninstall -qq --yes llm-fsm
	@$(BIN)/python -m pip install --quiet --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.serve: pyproject.toml | $(VENV)/.pip
	@echo 'installing llm-fsm-runtime and its server into $(VENV), a minute or two; the command is $(BIN)/llm-fsm'
	@$(BIN)/python -m pip uninstall -qq --yes llm-fsm
	@$(BIN)/python -m pip install --quiet --editable '.[server,mcp]'
	@$(BIN)/python -m compileall -q src
	@touch $(VENV)/.run $@

$(VENV)/.dev: pyproject.toml | $(VENV)/.pip
	@echo 'installing llm-fsm-runtime and what its tests need into $(VENV), a minute or two; the command is $(BIN)/llm-fsm'
	@$(BIN)/python -m pip uninstall -qq --yes llm-fsm
	@$(BIN)/python -m pip install --quiet --group dev --editable .
	@$(BIN)/python -m compileall -q src
	@touch $(VENV)/.run $@

$(OPTIONAL)/.made: pyproject.toml
	@echo 'installing llm-fsm-runtime with smolagents, ADK and llama.cpp into $(OPTIONAL), a few minutes'
	@$(PYTHON) -m venv $(OPTIONAL) >/dev/null 2>&1 || \
		{ $(PYTHON) -m venv --clear --without-pip $(OPTIONAL) && $(PYTHON) -m pip --quiet --python $(OPTIONAL)/bin/python install pip; }
	@$(OPTIONAL)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(OPTIONAL)/bin/python -m pip uninstall -qq --yes llm-fsm
	@$(OPTIONAL)/bin/python -m pip install --quiet --editable '.[adk,openai,smolagents,statemachine]' \
		'anyio>=4' 'hypothesis>=6' 'pytest-timeout>=2.3' 'xllamacpp>=2026.10'
	@touch $@

$(VOICE)/.made: pyproject.toml
	@echo 'installing llm-fsm-runtime with Pipecat and LiveKit into $(VOICE), a few minutes'
	@$(PYTHON) -m venv $(VOICE) >/dev/null 2>&1 || \
		{ $(PYTHON) -m venv --clear --without-pip $(VOICE) && $(PYTHON) -m pip --quiet --python $(VOICE)/bin/python install pip; }
	@$(VOICE)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(VOICE)/bin/python -m pip uninstall -qq --yes llm-fsm
	@$(VOICE)/bin/python -m pip install --quiet --editable . \
		'anyio>=4' 'hypothesis>=6' 'pytest-timeout>=2.3' 'livekit-agents>=1.5,<2' 'pipecat-ai>=1.13,<2'
	@touch $@

$(MESSENGERS)/.made: pyproject.toml
	@echo 'installing llm-fsm-runtime with slack-bolt, aiogram and pywa into $(MESSENGERS), a few minutes'
	@$(PYTHON) -m venv $(MESSENGERS) >/dev/null 2>&1 || \
		{ $(PYTHON) -m venv --clear --without-pip $(MESSENGERS) && $(PYTHON) -m pip --quiet --python $(MESSENGERS)/bin/python install pip; }
	@$(MESSENGERS)/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(MESSENGERS)/bin/python -m pip uninstall -qq --yes llm-fsm
	@$(MESSENGERS)/bin/python -m pip install --quiet --editable '.[server,slack,telegram,whatsapp]' \
		'anyio>=4' 'hypothesis>=6' 'pytest-timeout>=2.3'
	@touch $@

$(MODEL_ENV)/.made:
	@echo 'installing llama.cpp into $(MODEL_ENV)'
	@$(PYTHON) -m venv $(MODEL_ENV) >/dev/null 2>&1 || \
		{ $(PYTHON) -m venv --clear --without-pip $(MODEL_ENV) && $(PYTHON) -m pip --quiet --python $(MODEL_ENV)/bin/python install pip; }
	@$(MODEL_ENV)/bin/python -m pip install --quiet 'xllamacpp>=2026.10'
	@touch $@
