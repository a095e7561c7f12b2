"""``python -m taskmeter``: the same commands as ``taskmeter``."""

from taskmeter.cli.main import main

main(prog_name="python -m taskmeter")
