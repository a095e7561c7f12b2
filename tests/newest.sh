#!/bin/sh
# Runs the smoke tests on the newest supported Python and the newest release of every package.
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}-newest
[ -x "$venv/bin/python" ] || "$(tests/find-python.sh 3.13)" -m venv "$venv"
if [ ! -e "$venv/.ready" ] || [ pyproject.toml -nt "$venv/.ready" ]; then
    "$venv/bin/python" -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
    touch "$venv/.ready"
fi
"$venv/bin/python" --version
exec "$venv/bin/python" -m pytest -m smoke tests/live tests/cli tests/pages "$@"
