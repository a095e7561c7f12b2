"""``taskmeter snapshot``: what a cluster's tasks have cost so far."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from taskmeter.attempts.attempt import STALLED_SECONDS
from taskmeter.cli.options import lenient, refusing, sort_option, tls_options, top_option
from taskmeter.cli.source import connected, saved_with_course
from taskmeter.client.connect import Refusal, ask
from taskmeter.client.history import history_async
from taskmeter.history.moment import Moment
from taskmeter.plugins.http import as_json as strict_json
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import terminal_safe
from taskmeter.views.tables.groups import GROUP_SORTS
from taskmeter.views.tables.prefixes import DETAILED
from taskmeter.views.terminal.tables import (
    console,
    costs_view,
    groups_view,
    stalled_view,
    transfers_view,
    view,
)


@click.command()
@click.argument("source", metavar="ADDRESS|FILE")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
@click.option(
    "--groups", is_flag=True, help="A row a group: one operation on a collection, or one map."
)
@click.option("--costs", is_flag=True, help="What spans, clients and annotations cost.")
@click.option("--transfers", is_flag=True, help="What went between workers, and how fast.")
@click.option(
    "--stalled",
    "stalled_seconds",
    is_flag=False,
    flag_value=STALLED_SECONDS,
    type=click.FloatRange(min=0),
    metavar="[SECONDS]",
    help="Tasks that run but have used no CPU for this long, and where they stand.  "
    f"[default: {STALLED_SECONDS:g}]",
)
@top_option
@sort_option
@tls_options
@refusing
def snapshot(
    source: str,
    *,
    as_json: bool,
    groups: bool,
    costs: bool,
    transfers: bool,
    stalled_seconds: float | None,
    rows: int,
    sort: str,
) -> None:
    """Show what a cluster's tasks have cost so far.

    Those that still run are included.

    \b
        taskmeter snapshot tcp://127.0.0.1:8786
        taskmeter snapshot tcp://127.0.0.1:8786 --sort p95
        taskmeter snapshot tcp://127.0.0.1:8786 --groups --transfers
        taskmeter snapshot tcp://127.0.0.1:8786 --stalled 60
        taskmeter snapshot tcp://127.0.0.1:8786 --json | jq '.prefixes[].durations.compute.p95'
        taskmeter snapshot tcp://127.0.0.1:8786 --json > run.json; taskmeter snapshot run.json
        taskmeter snapshot run.sqlite --sort p95

    From "mean" to "p99" the columns tell how long one task takes: half of those that ended well
    took less than "p50", 95 of 100 less than "p95". Where "p95" is many times "p50", a few
    stragglers decide when the work is done. "now" is "p50" of the last minutes alone. "queued" is
    the wait on the scheduler, "wait" the one on the worker, and "output" the mean size of a result.
    "CPU" is the part of a prefix's time in which it computed; the rest it waited. "expected" is
    what the next task will take, by those that ended and those that run.

    The line "capacity" says what all threads did so far, as parts of their time, and the line
    "course" how busy they were from the beginning to now: a whole block is all of them.

    Columns that do not fit are left out, the least important ones first. A wider window shows
    more; so does COLUMNS=220 before the command where the output goes to a file.
    """  # noqa: D301 (\b keeps click from filling the lines)
    if groups and sort not in GROUP_SORTS:
        raise Refusal(f"Groups have no --sort {sort}; there is {', '.join(GROUP_SORTS)}.")
    now, moments = _taken(source)
    if as_json:
        click.echo(strict_json(_everything(now, moments, stalled_seconds)))
        return
    paper = console(lenient(sys.stdout))
    title, width = f"taskmeter: {terminal_safe(source)}", paper.width
    if groups:
        table = groups_view(now, title=f"{title}, groups", width=width, top=rows, sort=sort)
        paper.print(table, end="\n\n" if transfers else "\n")
    if transfers:
        paper.print(transfers_view(now, title=f"{title}, transfers", width=width, top=rows))
    if costs:
        paper.print(costs_view(now, title=f"{title}, costs", width=width, top=rows))
    if stalled_seconds is not None:
        of = f"{title}, stalled"
        paper.print(stalled_view(now, stalled_seconds, title=of, width=width, top=rows))
    elif not (groups or transfers or costs):
        paper.print(
            view(
                now,
                title=title,
                width=width,
                top=rows,
                sort=sort,
                of=DETAILED,
                stalled_seconds=STALLED_SECONDS,
                moments=moments,
            )
        )


def _taken(source: str) -> tuple[Snapshot, tuple[Moment, ...]]:
    path = Path(source)
    if path.is_file():
        return saved_with_course(path)
    with connected(source) as (client, take):
        return take(), ask(client, history_async)


def _everything(
    now: Snapshot, moments: Sequence[Moment], stalled_seconds: float | None
) -> dict[str, object]:
    everything = {**now.to_dict(), "moments": [moment.to_dict() for moment in moments]}
    if stalled_seconds is not None:
        everything["stalled"] = [asdict(attempt) for attempt in now.stalled(stalled_seconds)]
    return everything
