"""Bars that show how far some work is, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from taskmeter.snapshots.expected import Remaining
from taskmeter.snapshots.progress import Bar
from taskmeter.text import duration, short_name
from taskmeter.views.tables.prefixes import REST
from taskmeter.views.tables.time_left import rough, time_left

#: Prefixes that have a bar of their own.
MOST_BARS = 12

_BAR_WIDTH = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How far some work is.

    Parameters
    ----------
    bars
        Those of most tasks first.
    remaining
        How long the rest will take.
    elapsed_seconds
        Since somebody began to look.
    failure
        What failed, which ends it; empty if nothing did.
    finished
        Nothing is left, or something failed.
    """

    bars: tuple[Bar, ...] = ()
    remaining: Remaining | None = None
    elapsed_seconds: float = 0.0
    failure: str = ""
    finished: bool = False


def shown_bars(bars: Sequence[Bar]) -> tuple[Bar, ...]:
    """Return the bars to show: the largest, and one for the rest."""
    if len(bars) <= MOST_BARS:
        return tuple(bars)
    rest = bars[MOST_BARS - 1 :]
    return (
        *bars[: MOST_BARS - 1],
        Bar(prefix=REST, done=sum(b.done for b in rest), total=sum(b.total for b in rest)),
    )


def counted(bar: Bar) -> str:
    """Return what is done of what."""
    return f"{bar.done:,} / {bar.total:,}"


def each(bar: Bar) -> str:
    """Return what one task is expected to take; '' where that is not known."""
    return "" if bar.expected_seconds is None else f"{duration(bar.expected_seconds)} each"


def headline(look: Look) -> str:
    """Return a sentence: how far it is, and how long it will still take."""
    done = sum(bar.done for bar in look.bars)
    total = sum(bar.total for bar in look.bars)
    tasks = f"{done:,} of {total:,} task{'' if total == 1 else 's'}"
    after = duration(look.elapsed_seconds)
    if look.failure:
        return f"{tasks}, failed after {after}: {look.failure}"
    if look.finished:
        return f"{tasks} in {after}" if total else "nothing to do"
    if look.remaining is None:
        return f"{tasks} after {after}"
    return f"{tasks} after {rough(look.elapsed_seconds)}, left: {time_left(look.remaining)}"


def bars_view(look: Look) -> Group:
    """Return a bar for each prefix, and the sentence below."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(2):
        grid.add_column(no_wrap=True)
    for _ in range(2):
        grid.add_column(justify="right", no_wrap=True)
    for bar in shown_bars(look.bars):
        grid.add_row(
            Text(short_name(bar.prefix) if bar.prefix != REST else REST),
            ProgressBar(total=bar.total, completed=bar.done, width=_BAR_WIDTH),
            Text(counted(bar)),
            Text(each(bar), style="dim"),
        )
    parts: list[Any] = [grid] if look.bars else []
    return Group(*parts, Text(headline(look), style="red" if look.failure else ""))
