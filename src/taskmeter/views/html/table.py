"""A table as data: what the page lists first, sorts and searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from taskmeter.text import LONGEST_NAME, short_name, terminal_safe

R = TypeVar("R")

#: Rows that are there without JavaScript.
FIRST_ROWS = 25

#: Characters of a name that can be seen by pointing at it, and be searched for.
LONGEST_TITLE = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure(Generic[R]):
    """A column of numbers.

    Parameters
    ----------
    title
        The heading.
    hint
        What it means, in a sentence.
    value
        Gives the number of a row; nan where there is none.
    written
        Gives the text for a number.
    alarm
        A number other than 0 is bad news.
    blank
        A 0 is nothing worth a text.
    always
        The column is there even if it says nothing.
    """

    title: str
    hint: str
    value: Callable[[R], float]
    written: Callable[[float], str]
    alarm: bool = False
    blank: bool = False
    always: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(Generic[R]):
    """A column of words.

    Parameters
    ----------
    title
        The heading.
    hint
        What it means, in a sentence.
    words
        Gives the text of a row, which may hold any characters.
    """

    title: str
    hint: str
    words: Callable[[R], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, ready to be shown.

    Parameters
    ----------
    title, hint, alarm
        As in `Figure`.
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
    columns: tuple[Column, ...]

    @property
    def first(self) -> list[list[tuple[Column, str]]]:
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


def table(name: str, noun: str, of: Sequence[Figure[R] | Words[R]], rows: Iterable[R]) -> Table:
    """Make a table.

    Parameters
    ----------
    name, noun
        As in `Table`.
    of
        The columns; the first one is always shown.
    rows
        In the order in which they are shown at first.
    """
    those = list(rows)
    made = [(c, _words(c, those) if isinstance(c, Words) else _figures(c, those)) for c in of]
    shown = tuple(
        column
        for place, (declared, column) in enumerate(made)
        if not place or _says(column) or (isinstance(declared, Figure) and declared.always)
    )
    return Table(name=name, noun=noun, rows=len(those), columns=shown)


def _says(column: Column) -> bool:
    return any(column.values) if column.number else any(column.texts)


def _figures(declared: Figure[R], rows: Sequence[R]) -> Column:
    values = [declared.value(row) for row in rows]
    return Column(
        title=declared.title,
        hint=declared.hint,
        alarm=declared.alarm,
        number=True,
        texts=tuple(
            "" if math.isnan(v) or (declared.blank and not v) else declared.written(v)
            for v in values
        ),
        # six digits are more than a text shows, and take half of the space
        values=tuple(float(f"{v:.6g}") if math.isfinite(v) else None for v in values),
        titles={},
    )


def _words(declared: Words[R], rows: Sequence[R]) -> Column:
    words = [declared.words(row) for row in rows]
    return Column(
        title=declared.title,
        hint=declared.hint,
        alarm=False,
        number=False,
        texts=tuple(short_name(word) if word else "" for word in words),
        titles={
            place: terminal_safe(word[:LONGEST_TITLE])
            for place, word in enumerate(words)
            if len(word) > LONGEST_NAME
        },
    )
