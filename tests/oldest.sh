#!/bin/sh
# Runs what depends on Dask's release on the oldest supported Python and the oldest packages.
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}-oldest
[ -x "$venv/bin/python" ] || "$(tests/find-python.sh 3.10)" -m venv "$venv"
if [ ! -e "$venv/.ready" ] || [ pyproject.toml -nt "$venv/.ready" ] || [ tests/oldest.txt -nt "$venv/.ready" ]; then
    "$venv/bin/python" -m pip install --quiet --editable '.[test]' -c tests/oldest.txt
    touch "$venv/.ready"
fi
"$venv/bin/python" --version
"$venv/bin/python" -m pytest -n 2 --hypothesis-profile=quick \
    tests/plugins tests/decisions tests/exporters tests/views/test_terminal.py "$@"
# The pages in a browser and the slow tests are about taskmeter: they run once, on the newest Dask.
exec "$venv/bin/python" -m pytest -m "not slow" tests/live tests/cli "$@"
