"""``taskmeter top``: a live table of what a cluster's tasks cost."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import click
from rich.live import Live

from taskmeter.attempts.attempt import STALLED_SECONDS
from taskmeter.cli.options import address_argument, lenient, refusing, sort_option, tls_options
from taskmeter.cli.source import connected
from taskmeter.client.connect import ask
from taskmeter.client.history import Course
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.terminal.tables import console, view

#: Rows where the output is no terminal.
_ROWS = 20


@click.command()
@address_argument
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two snapshots.",
)
@click.option(
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Number of snapshots. Without it, top runs until Ctrl-C.",
)
@sort_option
@tls_options
@refusing
def top(address: str, *, interval: float, count: int | None, sort: str) -> None:
    """Watch what a cluster's tasks cost, as top does.

    \b
        taskmeter top tcp://127.0.0.1:8786
        taskmeter top tcp://127.0.0.1:8786 --sort rate --interval 5
        taskmeter top tcp://127.0.0.1:8786 --count 10 > ten_seconds.txt

    The column "threads" is how many threads a prefix kept busy since the last snapshot, "CPU" the
    part of its time in which it computed, and the line "capacity" what all threads did since then.
    The line "course" is how busy the threads were from the beginning to now: a whole block is all.
    The line "left" says how long the rest will take, with 90 % probability. What is stalled, late,
    failing or slow has a line on top that names the worst; tasks that are late, and those that have
    used no CPU for 30 seconds, are listed below. "mean", "p50", "p95" and "p99"
    tell how long one task takes: half of those that ended well took less than "p50".
    "taskmeter snapshot" has more such columns.
    """  # noqa: D301 (\b keeps click from filling the lines)
    paper = console(lenient(sys.stdout))
    with connected(address) as (client, take), suppress(KeyboardInterrupt), ExitStack() as stack:
        live = Live(console=paper, screen=True, auto_refresh=False) if paper.is_terminal else None
        if live is not None:
            stack.enter_context(live)
        course = Course()
        for now, earlier in _looks(take, interval, count):
            ask(client, course.update)
            table = view(
                now,
                earlier,
                title=f"taskmeter: {address}",
                width=paper.width,
                top=_ROWS,
                height=None if live is None else paper.height - 1,
                sort=sort,
                stalled_seconds=STALLED_SECONDS,
                moments=course.moments,
            )
            if live is None:
                paper.print(table, end="\n\n")
            else:
                live.update(table, refresh=True)


def _looks(
    take: Callable[[], Snapshot], interval: float, count: int | None
) -> Iterator[tuple[Snapshot, Snapshot | None]]:
    """Yield (snapshot, the one before it); the first has none before it."""
    earlier = None
    for _ in itertools.count() if count is None else range(count):
        if earlier is not None:
            time.sleep(interval)
        now = take()
        yield now, earlier
        earlier = now
