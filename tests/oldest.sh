#!/bin/sh
# Runs the suite on the oldest supported releases: the oldest Python at hand, the oldest Dask.
set -eu
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}-oldest
python=${OLDEST_PYTHON:-}
for candidate in python3.10 "$HOME/.pyenv/versions"/3.10.*/bin/python python3; do
    [ -z "$python" ] && "$candidate" -c '' 2>/dev/null && python=$candidate
done
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
if [ ! -e "$venv/.oldest" ] || [ pyproject.toml -nt "$venv/.oldest" ]; then
    "$venv/bin/python" -m pip install --quiet --editable '.[test]' -c tests/oldest.txt
    touch "$venv/.oldest"
fi
"$venv/bin/python" --version
# What neither knows Dask nor runs in its processes is the same here as in the other session: pages
# in a browser, pure policies, rule files and dashboards.
exec "$venv/bin/python" -m pytest tests --ignore=tests/pages --ignore=tests/policies \
    --ignore=tests/alerts --ignore=tests/grafana "$@"
