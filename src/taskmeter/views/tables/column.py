"""A column of a table, declared once for the terminal, the report and the dashboard."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from taskmeter.text import LONGEST_NAME, duration, percentage, short_name

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[R]):
    """One column: its title, and what it shows of a row.

    Parameters
    ----------
    title
        The heading.
    value
        Gives the number of a row, nan where there is none, or its text, which may hold any
        characters.
    write
        Gives the text for a number; None for a column of text.
    hint
        What it means, in a sentence. A column without one is not in the report.
    rank
        On a terminal, the columns with the highest rank go first where space is short. A column
        without a rank is not on a terminal.
    detail
        Not in the short form of the table.
    always
        The column is there even if no row has anything to show.
    blank
        A 0 is shown as nothing.
    alarm
        A number other than 0 is bad news.
    longest
        Characters to which a text is cut.
    least
        On a terminal, characters to which it is cut before columns of higher rank go; None if it
        stands whole.
    right
        Its words end at its right edge, as numbers do.
    measure
        The measure that rows must have for it, one of `taskmeter.views.tables.prefixes.MEASURES`.
    """

    title: str
    value: Callable[[R], float | str]
    write: Callable[[float], str] | None = None
    hint: str = ""
    rank: int | None = None
    detail: bool = False
    always: bool = False
    blank: bool = False
    alarm: bool = False
    longest: int = LONGEST_NAME
    least: int | None = None
    right: bool = False
    measure: str = ""

    @property
    def text(self) -> bool:
        """Whether it holds words, which begin at its left edge."""
        return self.write is None and not self.right

    def cell(self, row: R, longest: int | None = None) -> str:
        """Return the text for a row, cut to fewer characters than usual where that is asked for."""
        return self.write_value(self.value(row), longest)

    def write_value(self, value: float | str, longest: int | None = None) -> str:
        """Return the text for a number or a text."""
        if isinstance(value, str):
            return short_name(value, min(longest or self.longest, self.longest)) if value else ""
        if math.isnan(value) or (self.blank and not value) or self.write is None:
            return ""
        return self.write(value)

    def shown(self, rows: Sequence[R]) -> bool:
        """Return whether it has something to say about some rows."""
        return self.always or any(
            bool(value) if isinstance(value, str) else value != 0 and not math.isnan(value)
            for value in map(self.value, rows)
        )

    def width(self, rows: Sequence[R]) -> int:
        """Return the characters it needs to show some rows whole."""
        return max([len(self.title), *(len(self.cell(row)) for row in rows)])


def seconds(
    title: str, hint: str, value: Callable[[R], float], rank: int | None = None, **options: Any
) -> Column[R]:
    """Return a column of durations; a 0 is shown as nothing."""
    options = {"blank": True, **options}
    return Column(title=title, value=value, write=duration, hint=hint, rank=rank, **options)


def counts(
    title: str, hint: str, value: Callable[[R], float], rank: int | None = None, **options: Any
) -> Column[R]:
    """Return a column of numbers of things; none of them is shown as nothing."""
    options = {"blank": True, **options}
    return Column(title=title, value=value, write=whole, hint=hint, rank=rank, **options)


def shares(
    title: str, hint: str, value: Callable[[R], float], rank: int | None = None, **options: Any
) -> Column[R]:
    """Return a column of parts of one."""
    return Column(title=title, value=value, write=percentage, hint=hint, rank=rank, **options)


def nan_for_none(number: float | None) -> float:
    """Return a number; nan for None."""
    return math.nan if number is None else number


def whole(number: float) -> str:
    """Return a number of things."""
    return f"{round(number):,}"


def fitting(
    rows: Sequence[R], columns: Sequence[Column[R]], *, width: int | None = None, gap: int = 2
) -> tuple[Column[R], ...]:
    """Return the columns of a terminal that have something to say about some rows and that fit.

    Parameters
    ----------
    rows
        The rows.
    columns
        The columns to choose from.
    width
        Characters there are; None for any number. Two columns always stay.
    gap
        Characters between two columns.
    """
    chosen = [c for c in columns if c.rank is not None and c.shown(rows)]
    if width is None:
        return tuple(chosen)
    needs = {c.title: gap + min(c.width(rows), c.least or 10**9) for c in chosen}
    while len(chosen) > 2 and sum(needs[c.title] for c in chosen) > width + gap:
        chosen.remove(max(chosen, key=lambda c: c.rank or 0))
    return tuple(chosen)
