# untrained: two commands do everything on a fresh machine, `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile # half the time: few files are run

.PHONY: help setup demo test lint bench docs tutorials site dist clean
help:              ## show this list
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP)    ## create .venv and install the package, editable, with its tools
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -c constraints.txt torch
	$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@

demo: setup        ## the main job: score 100 NAS-Bench-201 networks and write a report
	$(BIN)/untrained search

lint: setup        ## what pre-commit runs
	$(BIN)/ruff check .
	$(BIN)/ruff check --select E501 --line-length 100 src
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports --no-cache

test: lint         ## lint, types and tests: two processes of one thread each, then the tests that need a quiet machine
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder -m "not alone"
	$(BIN)/pytest -m alone $$(grep -rl --include='test_*.py' 'mark\.alone' tests)

bench: setup       ## measure speed; write docs/results/performance.md and say what became slower
	$(BIN)/python benchmarks/dextr.py --repeats 4
	$(BIN)/python benchmarks/proxies.py --repeats 3
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/population.py
	$(BIN)/python benchmarks/strategies.py
	$(BIN)/python benchmarks/performance.py

docs: setup        ## write the pages that are generated from the code
	$(BIN)/python -m untrained.cli.reference_pages docs/reference
	$(BIN)/python -m untrained.papers.results index docs/results > docs/results/index.md

tutorials: setup   ## run the tutorials and write their outputs and pictures (needs chromium)
	$(BIN)/python dev/tutorials.py

site: setup        ## build the documentation site into site/; open site/index.html
	$(BIN)/mkdocs build --strict

dist: setup        ## build the source archive and the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean:             ## remove everything that setup and demo create
	rm -rf $(VENV) runs build dist site src/*.egg-info
