"""The command line: ``taskmeter``, ``dask taskmeter`` and ``python -m taskmeter``."""

from __future__ import annotations

import click

from taskmeter.cli.alerts import alerts
from taskmeter.cli.compare import compare
from taskmeter.cli.demo import demo
from taskmeter.cli.doctor import doctor
from taskmeter.cli.export import export
from taskmeter.cli.grafana import grafana
from taskmeter.cli.history import history
from taskmeter.cli.record import record
from taskmeter.cli.report import report
from taskmeter.cli.run import run
from taskmeter.cli.snapshot import snapshot
from taskmeter.cli.top import top
from taskmeter.cli.trace import trace
from taskmeter.version import __version__


@click.group(
    "taskmeter",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="taskmeter")
def main() -> None:
    """See what every kind of Dask task really costs, while it is still running.

    Begin with a demonstration on real data:

    \b
        taskmeter demo

    See what a program of yours costs, on a cluster of processes on this machine:

    \b
        taskmeter run script.py

    Look at a cluster that runs already. Its scheduler was started with
    --preload taskmeter.preload, or some client called taskmeter.install(client):

    \b
        taskmeter top tcp://127.0.0.1:8786
        taskmeter snapshot tcp://127.0.0.1:8786 --json
        taskmeter report tcp://127.0.0.1:8786 -o run.html
        taskmeter record tcp://127.0.0.1:8786 -o run.sqlite
        taskmeter doctor tcp://127.0.0.1:8786

    See what a change of the program made slower:

    \b
        taskmeter compare before.json after.json

    The exit code is 0 if all went well, 1 if it did not (one sentence on stderr says why, and what
    to do), and 2 for options that do not exist. "run" ends with the exit code of the script,
    "doctor" with 1 if anything is wrong, "compare" with 1 if anything is slower than you allow.

    The settings are Dask's own: "dask config get taskmeter" lists them.
    """  # noqa: D301 (\b keeps click from filling the lines)


_COMMANDS = (
    demo, run, top, snapshot, report, record, history, compare, trace, export, doctor, grafana,
    alerts,
)  # fmt: skip

for _command in _COMMANDS:
    main.add_command(_command)
