#!/bin/sh
# Prints the path of the Python with the version asked for; without one, says so and prints python3's.
set -eu
for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    "$candidate" -c 'import sys; print(sys.executable)' 2>/dev/null && exit
done
echo "No Python $1 on PATH or in pyenv: this session runs on $(python3 --version) instead." >&2
command -v python3
