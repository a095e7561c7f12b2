"""``taskmeter history``: the runs that were recorded, as a table and as pages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from taskmeter.cli.history_server import serve
from taskmeter.cli.options import lenient, refusing, top_option
from taskmeter.client.connect import Refusal
from taskmeter.history.runs import runs
from taskmeter.text import terminal_safe
from taskmeter.views.tables.runs import RUN_COLUMNS
from taskmeter.views.terminal.tables import console, grid


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option(
    "--serve",
    "address",
    is_flag=False,
    flag_value="127.0.0.1:8788",
    metavar="[HOST:PORT]",
    help="Serve the table as a page, with the report of each run, until Ctrl-C.  "
    "[default: 127.0.0.1:8788]",
)
@top_option
@refusing
def history(folder: Path, *, as_json: bool, address: str | None, rows: int) -> None:
    """Show the runs that were recorded in a folder and in those below it, the latest first.

    \b
        taskmeter history runs
        taskmeter history runs --serve
        taskmeter history runs --json | jq '.[0].compute_seconds'

    In Python, taskmeter.history("runs").runs is the same table as a pandas frame.
    """  # noqa: D301 (\b keeps click from filling the lines)
    if not folder.is_dir():
        raise Refusal(f"{terminal_safe(str(folder))!r} is not a folder.")
    if address is not None:
        serve(folder, address)
        return
    found = runs(folder)
    if as_json:
        click.echo(json.dumps([run.to_dict() for run in found]))
        return
    if not found:
        raise Refusal(
            f"There is no recording in {terminal_safe(str(folder))!r}: make one with "
            "taskmeter record ADDRESS -o FILE, or with the setting taskmeter.record."
        )
    paper = console(lenient(sys.stdout))
    paper.print(grid(found[:rows], RUN_COLUMNS, width=paper.width))
    if len(found) > rows:
        paper.print(f"Runs not shown: {len(found) - rows:,}; --top shows more")
