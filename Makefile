# One command each, on a machine with Python and pip. The environment is made on first use.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

# Tests on clusters, which compare with how long things take: one after the other. Those of commands
# and pages, which do not, and the pure ones run in parallel.
LIVE = tests/live
COMMANDS = tests/cli tests/pages

.PHONY: demo test check docs package grafana bench golden clean

demo: $(VENV)/.demo  ## run a real workload under the live view
	$(BIN)/taskmeter demo

test: $(VENV)/.test prometheus chromium  ## everything on this Python, then the oldest and the newest packages
	$(BIN)/python -m pytest -n 2 --doctest-modules src tests $(foreach part,$(LIVE) $(COMMANDS),--ignore=$(part))
	$(BIN)/python -m pytest -n 2 $(COMMANDS)
	$(BIN)/python -m pytest $(LIVE)
	VENV=$(VENV) tests/oldest.sh
	VENV=$(VENV) tests/newest.sh

check: $(VENV)/.check  ## lint, format, types, layers, and that the dashboards are as built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python dashboards/build.py --check

docs: $(VENV)/.docs  ## build the documentation, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

package: $(VENV)/.check  ## build the sdist and the wheel, and check them
	rm -rf dist
	$(BIN)/python -m build --quiet --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

grafana: $(VENV)/.check  ## rebuild the Grafana dashboards
	$(BIN)/python dashboards/build.py

bench: $(VENV)/.bench prometheus  ## every benchmark, one after the other
	for script in benchmarks/*.py benchmarks/decisions/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

golden: $(VENV)/.test  ## rewrite the golden files of the text formats
	$(BIN)/python -m pytest tests/exporters --rewrite-golden

pictures: $(VENV)/.test chromium  ## make the pictures of README and docs anew, from the demo
	$(BIN)/python docs/pictures.py

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest

.PHONY: prometheus
prometheus:
	@command -v promtool >/dev/null && command -v prometheus >/dev/null || ./tests/install-debian.sh prometheus

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || ./tests/install-debian.sh chromium

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

$(VENV)/.check: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[check,grafana]'
	touch $@

$(VENV)/.docs: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

$(VENV)/.bench: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	touch $@
