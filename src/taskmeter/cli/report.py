"""``taskmeter report``: what a cluster did, as one file for a browser."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from taskmeter.cli.report_file import check, here, reason, save
from taskmeter.client.connect import Refusal, connect, quiet, read
from taskmeter.client.measure import facts
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import printable, size
from taskmeter.views.html.facts import Facts
from taskmeter.views.html.page import page

#: What stands for stdout.
_STDOUT = "-"


@click.command()
@click.argument("source", metavar="ADDRESS|FILE")
@click.option(
    "-o",
    "--output",
    default="taskmeter-report.html",
    show_default=True,
    metavar="FILE",
    help="Where to write it; an older report is overwritten, no other file is. With - it goes to "
    "stdout.",
)
def report(source: str, output: str) -> None:
    """Write a report of what a cluster has done so far: one HTML file.

    \b
        taskmeter report tcp://127.0.0.1:8786 -o run.html
        taskmeter snapshot tcp://127.0.0.1:8786 --json > run.json
        taskmeter report run.json -o run.html

    It opens in any browser, without a network, and can be sent to others: what the capacity was
    used for and what was wasted, in words and in figures; how long tasks take, as boxes and as
    distributions; and tables of prefixes, groups, workers, transfers and of what runs now, which
    can be sorted and searched.

    Given a file that "taskmeter snapshot --json" made, it tells of that. The course of compute over
    time is in the reports of "taskmeter run --report run.html script.py" and of
    "with taskmeter.measure(client) as m: ..." with "m.report(path)", which look again and again.
    """  # noqa: D301 (\b keeps click from filling the lines)
    try:
        text = _written(source, output)
    except Refusal as refusal:
        raise click.ClickException(str(refusal)) from None
    if output == _STDOUT:
        sys.stdout.buffer.write(text.encode())
        return
    click.echo(f"Wrote {printable(output)} ({size(len(text.encode()))}).")


def _written(source: str, output: str) -> str:
    path = Path(source)
    if output != _STDOUT:
        check(Path(output))
    text = _of_file(path) if path.is_file() else _of_cluster(source)
    if output != _STDOUT:
        save(Path(output), text)
    return text


def _of_file(path: Path) -> str:
    named = repr(printable(str(path)))
    try:
        found = Snapshot.from_dict(json.loads(path.read_bytes()))
    except OSError as error:
        raise Refusal(f"Cannot read {named}: {reason(error)}.") from error
    except ValueError as error:
        raise Refusal(
            f"{named} is not a snapshot: make one with taskmeter snapshot ADDRESS --json > FILE."
        ) from error
    title = f"taskmeter report of {path.name}"
    return page(found, facts=Facts(title=title, source=str(path), versions=here()))


def _of_cluster(address: str) -> str:
    if address.endswith(".json"):
        raise Refusal(f"There is no file {printable(address)!r}.")
    with quiet():
        client = connect(address)
        try:
            found = read(client)
            return page(found, facts=facts(client, f"taskmeter report of {address}"))
        finally:
            client.close()
