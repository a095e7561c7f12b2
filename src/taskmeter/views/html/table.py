"""A table as data: what the page lists first, sorts and searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from taskmeter.text import terminal_safe
from taskmeter.views.tables.column import Column

R = TypeVar("R")

#: Rows that are there without JavaScript.
FIRST_ROWS = 25

#: Characters of a name that can be seen by pointing at it, and be searched for.
LONGEST_TITLE = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A column, ready to be shown.

    Parameters
    ----------
    title, hint, alarm
        As in `Column`.
    number
        It holds numbers.
    texts
        What stands in each row.
    values
        What its numbers are sorted by; None where there is none. Empty for words.
    titles
        ``{row: the longer text}`` of those that were shortened.
    """

    title: str
    hint: str
    alarm: bool
    number: bool
    texts: tuple[str, ...]
    values: tuple[float | None, ...] = ()
    titles: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table.

    Parameters
    ----------
    name
        Its id in the page.
    rows
        How many it has.
    noun
        What a row is, in the plural.
    columns
        From left to right; those that say nothing are left out.
    """

    name: str
    noun: str
    rows: int
    columns: tuple[Cells, ...]

    @property
    def first(self) -> list[list[tuple[Cells, str]]]:
        """``(column, text)`` of the cells of the first rows."""
        return [
            [(column, column.texts[row]) for column in self.columns]
            for row in range(min(self.rows, FIRST_ROWS))
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return it as lists, dicts, numbers and strings."""
        return {
            "noun": self.noun,
            "rows": self.rows,
            "columns": [
                {
                    "number": column.number,
                    "alarm": column.alarm,
                    "texts": column.texts,
                    "values": column.values,
                    "titles": column.titles,
                }
                for column in self.columns
            ],
        }


def table(name: str, noun: str, columns: Sequence[Column[R]], rows: Sequence[R]) -> Table:
    """Make a table of those columns that have a hint and something to say.

    Parameters
    ----------
    name, noun
        As in `Table`.
    columns
        What to choose from.
    rows
        In the order in which they are shown at first.
    """
    shown = (_cells(c, rows) for c in columns if c.hint and c.shown(rows))
    return Table(name=name, noun=noun, rows=len(rows), columns=tuple(shown))


def _cells(column: Column[R], rows: Sequence[R]) -> Cells:
    values = [column.value(row) for row in rows]
    return Cells(
        title=column.title,
        hint=column.hint,
        alarm=column.alarm,
        number=not column.text,
        texts=tuple(column.write_value(value) for value in values),
        # six digits are more than a text shows, and take half of the space
        values=()
        if column.text
        else tuple(
            float(f"{v:.6g}") if not isinstance(v, str) and math.isfinite(v) else None
            for v in values
        ),
        titles={
            place: terminal_safe(value[:LONGEST_TITLE])
            for place, value in enumerate(values)
            if isinstance(value, str) and len(value) > column.longest
        },
    )
