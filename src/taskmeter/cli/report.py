"""``taskmeter report``: what a cluster did, as one file for a browser."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from taskmeter.cli.options import STDOUT, force_option, refusing, tls_options
from taskmeter.cli.output_files import check_writable, write_files
from taskmeter.cli.source import connected, recording, saved_with_course
from taskmeter.client.connect import ask
from taskmeter.client.facts import facts as cluster_facts
from taskmeter.client.history import course_async
from taskmeter.history.recording_format import is_recording
from taskmeter.text import size, terminal_safe
from taskmeter.version import __version__
from taskmeter.views.html.facts import Facts
from taskmeter.views.html.page import page
from taskmeter.views.html.recording import page_of


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
@force_option
@tls_options
@refusing
def report(source: str, output: str, *, force: bool) -> None:
    """Write a report of what a cluster has done so far: one HTML file.

    \b
        taskmeter report tcp://127.0.0.1:8786 -o run.html
        taskmeter report run.sqlite -o run.html

    It opens in any browser, without a network, and can be sent to others: what the capacity was
    used for and what was wasted, in words and in figures; how long tasks take, as boxes and as
    distributions; and tables of prefixes, groups, workers, transfers and of what runs now, which
    can be sorted and searched.

    Given a recording ("taskmeter record", "taskmeter run --record"), or a file that
    "taskmeter snapshot --json" made, it tells of that, and needs no cluster. The course of compute
    over time is in all of them.
    """  # noqa: D301 (\b keeps click from filling the lines)
    if output == STDOUT:
        sys.stdout.buffer.write(_page(source).encode())
        return
    path = Path(output)
    check_writable(path, force=force)
    text = _page(source)
    write_files({path: text}, force=force)
    click.echo(f"Wrote {terminal_safe(output)} ({size(len(text.encode()))}).")


def _page(source: str) -> str:
    path = Path(source)
    if is_recording(path):
        return page_of(recording(path))
    if path.is_file():
        facts = Facts(
            title=f"taskmeter report of {path.name}",
            source=str(path),
            versions={"taskmeter here": __version__},
        )
        snapshot, moments = saved_with_course(path)
        return page(snapshot, facts=facts, moments=moments)
    with connected(source) as (client, take):
        snapshot, facts = take(), cluster_facts(client, f"taskmeter report of {source}")
        return page(snapshot, facts=facts, moments=ask(client, course_async, snapshot))
