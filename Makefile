# Each target makes the virtual environment and installs what it needs; a second call is instant.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp

INDEX ?= indexes/demo

.PHONY: demo serve test lint bench soak fuzz clean

demo: $(STAMP)-demo
	$(BIN)/factlearn demo

serve: $(STAMP)-serve
	@test -f $(INDEX)/index.json || { echo "There is no index $(INDEX) yet; run 'make demo' first."; exit 2; }
	$(BIN)/factlearn serve $(INDEX)

test: $(STAMP)-dev
	tests/server/browser/get-chromium.sh
	$(BIN)/python -m pytest -n 2 --dist loadfile

# A Milvus server in a folder of its own, started by the tests in a network namespace without anything but loopback.
.PHONY: milvus-test
milvus-test: $(STAMP)-dev .milvus-server
	unshare --map-root-user --net sh -c 'ip link set lo up && exec "$$@"' sh \
	  $(BIN)/python -m pytest -m slow tests/retrieval/milvus

.milvus-server: | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-deps --target $@ milvus==2.3.5

lint: $(STAMP)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: docs
docs: $(STAMP)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is in site/; open site/index.html, or run $(BIN)/mkdocs serve."

bench: $(STAMP)-dev
	for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

soak: $(STAMP)-dev
	$(BIN)/python -m tests.soak

fuzz: $(STAMP)-dev
	$(BIN)/python -m tests.fuzz

clean:
	rm -rf $(VENV) .milvus-server .pytest_cache .mypy_cache .ruff_cache .hypothesis dist site

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "factlearn needs Python 3.11 or newer; set PYTHON=python3.11.")'
	$(PYTHON) -m venv $(VENV)

$(STAMP)-%: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$*]'
	touch $@
