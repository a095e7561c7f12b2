"""A snapshot as text for a terminal: a table, a summary, a line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import IO, Any, TypeVar

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from taskmeter.history.moment import Moment
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration, short_name
from taskmeter.views.strip import BAD, PLAIN, WARNING, busy_threads, strip
from taskmeter.views.tables.capacity import capacity_line, waste_line
from taskmeter.views.tables.column import Column, fitting
from taskmeter.views.tables.costs import COST_COLUMNS, cost_rows, price_line
from taskmeter.views.tables.course import course_line
from taskmeter.views.tables.groups import GROUP_COLUMNS, group_rows
from taskmeter.views.tables.prefixes import COLUMNS, REST, Row, needed, rows
from taskmeter.views.tables.stalled import STALLED_COLUMNS, stalled_rows
from taskmeter.views.tables.time_left import LATE_COLUMNS, left_line
from taskmeter.views.tables.transfers import MOVED_COLUMNS, PAIR_COLUMNS, moved, pair_rows

R = TypeVar("R")

#: Where nobody knows how wide the output is, in a log file for example.
WIDTH_OF_A_FILE = 100

#: Stalled tasks, and late ones, that have a line below the table.
_FEW = 5

#: Characters between two columns.
_GAP = 2

#: Lines of the table of prefixes that are no row of one: blank, header, rule, the rest.
_TABLE_LINES = 4

#: {level of a notice: how its figure looks}
_STYLES = {BAD: "bold red", WARNING: "bold yellow", PLAIN: ""}


def console(stream: IO[str]) -> Console:
    """Return a console on which text means itself: no markup, no emoji, no guessed colours."""
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
    of: Sequence[Column[Row]] = COLUMNS,
) -> Table:
    """Return a table with one row a prefix.

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
        One of `taskmeter.views.tables.prefixes.SORTS`.
    of
        The columns to choose from.
    """
    shown = rows(snapshot, earlier, top=top, sort=sort, measures=needed(of))
    return grid(shown, of, width=width, dim=lambda row: row.prefix == REST)


def grid(
    shown: Sequence[R],
    of: Sequence[Column[R]],
    *,
    width: int,
    dim: Callable[[R], bool] = lambda _: False,
) -> Table:
    """Return a table of any rows.

    Parameters
    ----------
    shown
        The rows.
    of
        The columns to choose from.
    width
        Characters there are.
    dim
        Tells which rows are not worth the same attention.
    """
    chosen = fitting(shown, of, width=width, gap=_GAP)
    room = _room(chosen, shown, width)
    printed = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, _GAP - 1, 0, 0),
        pad_edge=False,
        header_style="bold",
    )
    for column in chosen:
        printed.add_column(
            Text(column.title),
            justify="left" if column.text else "right",
            no_wrap=True,
            overflow="crop",
        )
    for row in shown:
        printed.add_row(
            *(_cell(column, row, room) for column in chosen),
            style="dim" if dim(row) else None,
        )
    return printed


def _room(chosen: Sequence[Column[R]], shown: Sequence[R], width: int) -> int:
    """Return the characters that the other columns leave to the one that can be cut."""
    fixed = sum(c.width(shown) for c in chosen if c.least is None)
    return width - fixed - _GAP * (len(chosen) - 1)


def _cell(column: Column[R], row: R, room: int) -> Text:
    text = column.cell(row, None if column.least is None else max(room, 1))
    return Text(text, style="red" if column.alarm and text else "")


def strip_lines(snapshot: Snapshot, earlier: Snapshot | None = None, *, width: int) -> list[Text]:
    """Return the strip: what is busy, what is left, and a line for each notice that alarms."""
    busy, left, *others = strip(snapshot, busy_threads(snapshot, earlier))
    lines = [Text(f"{busy.title} {busy.figure} | {busy.says}")]
    if snapshot.remaining is not None:
        lines.append(Text(left_line(snapshot.remaining), style=_STYLES[left.level]))
    for notice in others:
        if notice.alarming:
            line_ = Text(f"{notice.title} {notice.figure}", style=_STYLES[notice.level])
            line_.append(f": {notice.says}", style="default not bold")
            line_.truncate(width, overflow="ellipsis")
            lines.append(line_)
    return lines


def view(
    snapshot: Snapshot,
    earlier: Snapshot | None = None,
    *,
    title: str = "",
    width: int,
    top: int | None = None,
    height: int | None = None,
    sort: str = "compute",
    of: Sequence[Column[Row]] = COLUMNS,
    stalled_seconds: float | None = None,
    moments: Sequence[Moment] = (),
) -> Group:
    """Return a title, the strip and the table, as one thing that rich can print.

    With `moments` there is how busy the threads were from the first to the last of them. With
    `stalled_seconds` there is what became of the capacity, what was wasted, the attempts that are
    late and those that have stood still for so long. With `height` in place of `top`, the table of
    prefixes has as many rows as so many lines have room for.
    """
    parts: list[Any] = [_title(title)] if title else []
    parts += strip_lines(snapshot, earlier, width=width)
    if stalled_seconds is not None:
        lines = capacity_line(snapshot, earlier), waste_line(snapshot)
        parts += [Text(line) for line in lines if line]
    course = course_line(moments, width)
    if course:
        parts.append(Text(course))
    if height is not None:
        above = sum(-(-max(part.cell_len, 1) // width) for part in parts)
        top = max(1, height - above - _TABLE_LINES)
    if snapshot.prefixes:
        parts += [Text(""), table(snapshot, earlier, width=width, top=top, sort=sort, of=of)]
    if stalled_seconds is not None and snapshot.late:
        parts += [Text(""), *_first(snapshot.late, LATE_COLUMNS, width, _FEW, "Late tasks")]
    still = () if stalled_seconds is None else stalled_rows(snapshot, stalled_seconds)
    if still:
        parts += [Text(""), *_first(still, STALLED_COLUMNS, width, _FEW, "Stalled tasks")]
    return Group(*parts)


def stalled_view(
    snapshot: Snapshot, threshold_seconds: float, *, title: str, width: int, top: int | None = None
) -> Group:
    """Return a title and a table of the attempts that have stood still for so long."""
    shown = stalled_rows(snapshot, threshold_seconds)
    if shown:
        return Group(_title(title), Text(""), *_first(shown, STALLED_COLUMNS, width, top, "Tasks"))
    if snapshot.running and all(a.cpu_seconds is None for a in snapshot.running):
        return Group(_title(title), Text("CPU time cannot be measured on these workers."))
    return Group(_title(title), Text(f"No task has stood still for {duration(threshold_seconds)}."))


def groups_view(
    snapshot: Snapshot,
    *,
    title: str,
    width: int,
    top: int | None = None,
    sort: str = "compute",
) -> Group:
    """Return a title and a table with one row a group; parameters as for `view`."""
    shown = group_rows(snapshot, sort=sort)
    if not shown:
        return Group(_title(title), Text("No task of any group has ended yet."))
    return Group(_title(title), Text(""), *_first(shown, GROUP_COLUMNS, width, top, "Groups"))


def costs_view(snapshot: Snapshot, *, title: str, width: int, top: int | None = None) -> Group:
    """Return a title and a table of costs by span, client and annotation; parameters as `view`."""
    shown = cost_rows(snapshot)
    if not shown:
        return Group(_title(title), Text("No task has ended yet."))
    parts: list[Any] = [_title(title)]
    if price_line(snapshot):
        parts.append(Text(price_line(snapshot)))
    return Group(*parts, Text(""), *_first(shown, COST_COLUMNS, width, top, "Names"))


def transfers_view(snapshot: Snapshot, *, title: str, width: int, top: int | None = None) -> Group:
    """Return a title, a table of all transfers and one of pairs; parameters as for `view`."""
    if not snapshot.transfers.seconds.count:
        return Group(_title(title), Text("No result has gone from one worker to another yet."))
    parts: list[Any] = [_title(title), Text("")]
    parts.append(grid(moved(snapshot.transfers), MOVED_COLUMNS, width=width))
    pairs = pair_rows(snapshot.transfers)
    if pairs:
        parts += [Text(""), *_first(pairs, PAIR_COLUMNS, width, top, "Pairs of workers")]
    return Group(*parts)


def _title(title: str) -> Text:
    return Text(title, style="bold cyan")


def _first(
    shown: Sequence[R], of: Sequence[Column[R]], width: int, top: int | None, noun: str
) -> list[Any]:
    """Return the table of the first rows, and say how many there are beyond them."""
    parts: list[Any] = [grid(shown[:top], of, width=width)]
    if top is not None and len(shown) > top:
        parts.append(Text(f"{noun} not shown: {len(shown) - top:,}; --top shows more"))
    return parts


def line(snapshot: Snapshot, earlier: Snapshot | None = None) -> str:
    """Return one line for a log: how long, how much, and the prefixes that keep threads busy."""
    busy, _, *others = strip(snapshot, busy_threads(snapshot, earlier))
    busiest = [r for r in rows(snapshot, earlier, sort="rate")[:3] if r.stats.executing]
    parts = [
        duration(snapshot.elapsed_seconds).rjust(8),
        f"{busy.figure} {busy.title}",
        busy.says.partition(" | ")[2],
    ]
    if busiest:
        names = ", ".join(f"{r.stats.executing} {short_name(r.prefix)}" for r in busiest)
        parts.append(f"now: {names}")
    if snapshot.remaining is not None:
        parts.append(left_line(snapshot.remaining))
    parts += [f"{notice.title}: {notice.says}" for notice in others if notice.alarming]
    return " | ".join(parts)
