"""A snapshot as text for a terminal: a table, a summary, a line."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import IO, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from taskmeter.core.snapshot import Snapshot
from taskmeter.views.cells import duration, percentage, short_name, shorten
from taskmeter.views.columns import REST, Column, Row, Summary, columns, rows, summary

#: Where nobody knows how wide the output is, in a log file for example.
WIDTH_OF_A_FILE = 100

#: Characters between two columns.
_GAP = 2


def console(stream: IO[str]) -> Console:
    """Give a console on which text means itself: no markup, no emoji, no guessed colours."""
    unknown = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        width=WIDTH_OF_A_FILE if unknown else None,
    )


def table(
    snapshot: Snapshot,
    earlier: Snapshot | None = None,
    *,
    width: int,
    top: int | None = None,
    sort: str = "compute",
) -> Table:
    """Give a table with one row a prefix.

    Parameters
    ----------
    snapshot
        What to show.
    earlier
        An earlier snapshot of the same cluster: what is in `snapshot` beyond it is shown as a rate.
    width
        Characters there are; columns that matter less are left out where they do not fit.
    top
        Rows there are; the prefixes that do not fit share one.
    sort
        One of `taskmeter.views.columns.SORTS`.
    """
    those = rows(snapshot, earlier, top=top, sort=sort)
    chosen = columns(those, width=width, gap=_GAP)
    room = _room(chosen, those, width)
    found = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, _GAP - 1, 0, 0),
        pad_edge=False,
        header_style="bold",
    )
    for column in chosen:
        found.add_column(
            Text(column.title),
            justify="right" if column.least is None else "left",
            no_wrap=True,
            overflow="crop",
        )
    for row in those:
        found.add_row(
            *(_cell(column, row, room) for column in chosen),
            style="dim" if row.prefix == REST else None,
        )
    return found


def _room(chosen: Sequence[Column], those: Sequence[Row], width: int) -> int:
    """Give the characters that the other columns leave to the one that can be cut."""
    fixed = sum(c.width(those) for c in chosen if c.least is None)
    return width - fixed - _GAP * (len(chosen) - 1)


def _cell(column: Column, row: Row, room: int) -> Text:
    text = column.cell(row)
    if column.least is not None:
        text = shorten(text, max(room, column.least))
    return Text(text, style="red" if column.alarm and text else "")


def summary_line(figures: Summary) -> str:
    """Give the cluster's figures in one line."""
    parts = [
        _many(figures.workers, "worker"),
        _many(figures.nthreads, "thread"),
        f"{figures.executing:,} running",
    ]
    if not math.isnan(figures.busy_threads):
        parts.append(f"{figures.busy_threads:.1f} threads busy")
    parts.append(
        f"compute {duration(figures.compute_seconds)} of {duration(figures.thread_seconds)}"
        f" ({percentage(figures.utilisation)})"
    )
    if figures.wasted_seconds:
        of_compute = figures.wasted_seconds / figures.compute_seconds
        parts.append(f"wasted {duration(figures.wasted_seconds)} ({percentage(of_compute)})")
    if figures.unmetered_workers:
        parts.append(f"{figures.unmetered_workers} of the workers not metered")
    return " | ".join(parts)


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def view(
    snapshot: Snapshot,
    earlier: Snapshot | None = None,
    *,
    title: str = "",
    width: int,
    top: int | None = None,
    sort: str = "compute",
) -> Group:
    """Give a title, the summary and the table, as one thing that rich can print."""
    parts: list[Any] = [Text(title, style="bold cyan")] if title else []
    parts.append(Text(summary_line(summary(snapshot, earlier))))
    if snapshot.prefixes:
        parts += [Text(""), table(snapshot, earlier, width=width, top=top, sort=sort)]
    return Group(*parts)


def line(snapshot: Snapshot, earlier: Snapshot | None = None) -> str:
    """Give one line for a log: how long, how much, and the prefixes that keep threads busy."""
    busiest = [r for r in rows(snapshot, earlier, sort="rate")[:3] if r.stats.executing]
    parts = [
        duration(snapshot.elapsed_seconds).rjust(8),
        summary_line(summary(snapshot, earlier)).split(" | ", 2)[2],
    ]
    if busiest:
        names = ", ".join(f"{r.stats.executing} {short_name(r.prefix)}" for r in busiest)
        parts.append(f"now: {names}")
    return " | ".join(parts)
