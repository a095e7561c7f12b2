"""Tables that sort, search and choose: of prefixes, of failures, of workers."""

from __future__ import annotations

import html
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from bokeh.layouts import row
from bokeh.models import (
    DataTable,
    Div,
    HTMLTemplateFormatter,
    InlineStyleSheet,
    StringFormatter,
    TableColumn,
    TextInput,
)

from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.style import CONTROLS, TICKS
from taskmeter.text import duration, percentage, size
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import prefix_colour
from taskmeter.views.figures.view import View
from taskmeter.views.tables.column import Column, whole
from taskmeter.views.tables.failures import FAILURE_COLUMNS, FailureRow, failure_rows
from taskmeter.views.tables.prefixes import DETAILED, Row, needed, rows
from taskmeter.views.tables.workers import WORKER_COLUMNS, WorkerRow, worker_rows

#: Pixels of a character of a usual name, and of what stands before it.
_CHARACTER: Final = 7.4
_SWATCH: Final = 26

#: {what a column writes its numbers with: the same in JavaScript, of a number called ``tick``}
_WRITERS: Final[Mapping[Any, str]] = {
    duration: TICKS["duration"],
    size: TICKS["size"],
    percentage: 'return (100 * tick).toFixed(0 < tick && tick < 0.0995 ? 1 : 0) + " %"',
    whole: "return Math.round(tick).toLocaleString('en')",
}

_NUMBER: Final = """
<% const write = (tick) => {{ {write} }}
const blank = value < 0 || ({blank} && value === 0) %>
<div style="text-align: right{style}"><%= blank ? "" : write(value) %></div>
"""

_COLOUR: Final = """
<span style="display: inline-block; width: 9px; height: 9px; border-radius: 2px;
  outline: 1px solid #9998;
  margin-right: 5px; background: <%- colour %>"></span>"""

_TEXT: Final = '<span title="<%- value %>"><%- value %></span>'

_STYLE: Final = """
:host { font-size: 12px; }
.slick-header-column { font-size: 11px; font-weight: 600; background: transparent; }
.slick-cell { font-variant-numeric: tabular-nums; padding: 2px 5px; border-color: #9993; }
@media (prefers-color-scheme: dark) {
  .slick-viewport, .slick-header, .slick-header-column, .slick-row, .slick-cell {
    background: #1f2227; color: #d6d6d6; border-color: #3c4046;
  }
  .slick-row.odd .slick-cell { background: #24282e; }
  .slick-row .slick-cell.selected { background: #1d4b6e; }
}
"""

_TRACE: Final = """
:host { color: inherit; }
pre { font-size: 11px; line-height: 1.35; margin: 4px 0 0; max-height: 190px; overflow: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; }
"""


class TablePanel(Panel):
    """A table with one row for each of something; a click on a row chooses that on all panels."""

    every = 2
    #: Its columns, as the report has them, too.
    table: ClassVar[Sequence[Column[Any]]]
    #: {title of a column: how wide it is}; others are as wide as numbers are.
    widths: ClassVar[Mapping[str, int]] = {}
    #: Its rows have the colours of prefixes.
    coloured: ClassVar[bool] = True
    #: What it says if there is no row.
    nothing: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._search = TextInput(
            placeholder="search", width=220, height=26, margin=(0, 6, 4, 2),
            name=f"search {self.name}", stylesheets=[InlineStyleSheet(css=CONTROLS)],
        )  # fmt: skip
        self._search.on_change("value_input", self._searched)
        self._words = ""
        #: what each row of the table stands for
        self._keys: tuple[Hashable, ...] = ()
        self._fields = {column.title: f"c{place}" for place, column in enumerate(self.table)}
        self._rows = self.source(f"{self.name} table", "colour", *self._fields.values())
        self._rows.selected.on_change("indices", self._picked)
        self.columns = [self._column(column) for column in self.table]
        self.grid = DataTable(
            source=self._rows, columns=self.columns, sizing_mode="stretch_both", row_height=22,
            index_position=None, autosize_mode="none", scroll_to_selection=False, reorderable=False,
            min_height=120, stylesheets=[InlineStyleSheet(css=_STYLE)],
        )  # fmt: skip
        self.lay_out(self.grid, *self.below(), controls=row(self._search))

    def below(self) -> Sequence[Any]:
        """Return what stands below the table."""
        return ()

    def rows(self, view: View) -> Sequence[Any]:
        """Return the rows of a view."""
        raise NotImplementedError

    def key(self, of: Any) -> Hashable:
        """Return what a row stands for."""
        raise NotImplementedError

    def prefix(self, of: Any) -> str:
        """Return the prefix whose colour a row has; empty for none."""
        raise NotImplementedError

    def pick(self, key: Hashable) -> None:
        """Choose what a row stands for; None if none is picked any more."""
        raise NotImplementedError

    def picked(self) -> Hashable:
        """Return what the row stands for that is chosen now."""
        raise NotImplementedError

    def _column(self, column: Column[Any]) -> TableColumn:
        number = column.write is not None
        template = _COLOUR + _TEXT if column is self.table[0] and self.coloured else _TEXT
        if column.write is not None:
            template = _NUMBER.format(
                write=_WRITERS.get(column.write, "return tick.toFixed(2)"),
                blank="true" if column.blank else "false",
                style="; color: #D55E00" if column.alarm else "",
            )
        return TableColumn(
            field=self._fields[column.title],
            title=column.title,
            width=self._width(column),
            formatter=StringFormatter(text_align="right")
            if column.right
            else HTMLTemplateFormatter(template=template),
            default_sort="descending" if number else "ascending",
        )

    def _width(self, column: Column[Any]) -> int:
        usual = 110 if column.write is None else 70
        return self.widths.get(column.title, max(usual, 8 * len(column.title) + 14))

    def _searched(self, attr: str, old: str, new: str) -> None:  # noqa: ARG002 (Bokeh's signature)
        self._words = new
        self.choose()

    def _picked(self, attr: str, old: Any, new: Sequence[int]) -> None:  # noqa: ARG002 (Bokeh's)
        if self._showing:
            return
        self.pick(self._keys[new[0]] if new and new[0] < len(self._keys) else None)

    def state(self) -> dict[str, Any]:
        """Return what is searched for."""
        return {"words": self._words.lower().split()}

    def work(self, view: View, *, words: Sequence[str]) -> Update:
        """Return the columns, and what the rows stand for."""
        every = self.rows(view)
        named = [(r, self.table[0].value(r)) for r in every]
        kept = [r for r, name in named if all(word in str(name).lower() for word in words)]
        columns: dict[str, Any] = {
            self._fields[column.title]: _values(column, kept, self._width(column))
            for column in self.table
        }
        columns["colour"] = [_colour(self.prefix(r)) for r in kept]
        count = f"{len(kept):,} of {len(every):,} match." if words else ""
        return Update(
            columns={f"{self.name} table": columns},
            note=count if every else self.nothing,
            empty=not every,
            extra=(
                tuple(self.key(r) for r in kept),
                [column.always or _says_something(columns[field]) for column, field in zip(
                    self.table, self._fields.values(), strict=True)],
            ),
        )  # fmt: skip

    def dress(self, update: Update) -> None:
        """Show the columns that have something to say."""
        self._keys, visible = update.extra
        for column, is_visible in zip(self.columns, visible, strict=True):
            if column.visible is not is_visible:
                column.visible = is_visible

    def show(self, update: Update) -> None:
        """Draw the rows, and mark the chosen one."""
        super().show(update)
        self._showing = True
        try:
            picked = self.picked()
            indices = [self._keys.index(picked)] if picked in self._keys else []
            if list(self._rows.selected.indices) != indices:
                self._rows.selected.indices = indices
        finally:
            self._showing = False


def _values(column: Column[Any], kept: Sequence[Any], width: int) -> Any:
    """Return the numbers of a column, or its texts as far as there is room for them."""
    values = [column.value(r) for r in kept]
    if column.write is not None:
        # below all figures, so that what is not known comes last of the largest
        return np.nan_to_num(np.array(values, dtype=np.float64), nan=-1.0)
    if column.right:
        return values
    room = round((width - _SWATCH) / _CHARACTER)
    return [label(value, room) if value else "" for value in map(str, values)]


def _colour(prefix: str) -> str:
    return prefix_colour(prefix) if prefix else "transparent"


def _says_something(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return bool(np.any(values > 0))
    return any(values)


class PrefixesPanel(TablePanel):
    """Every prefix."""

    name = "prefixes"
    title = "All prefixes"
    caption = (
        "A click on a heading sorts; a click on a row shows that prefix alone on the whole page."
    )
    highlights = frozenset({"prefix"})
    table = DETAILED
    widths: ClassVar = {"task prefix": 270}
    nothing = "No task has run yet."

    def rows(self, view: View) -> Sequence[Row]:
        """Return a row for each prefix, with what it keeps busy now."""
        last = view.moments[-1] if view.moments else None
        return rows(
            view.snapshot,
            measures=needed(DETAILED),
            rates=None
            if last is None
            else {name: s / last.seconds for name, s in last.compute_seconds.items()},
        )

    def key(self, of: Row) -> Hashable:
        """Return its name."""
        return of.prefix

    def prefix(self, of: Row) -> str:
        """Return its name."""
        return of.prefix

    def pick(self, key: Any) -> None:
        """Choose a prefix."""
        self.choose(prefix=key)

    def picked(self) -> Hashable:
        """Return the chosen prefix."""
        return self.selection.prefix


class FailuresPanel(TablePanel):
    """What fails, and how."""

    name = "failures"
    title = "Failures"
    caption = (
        "Attempts that failed, by prefix and type of exception, with the message of the latest; a "
        "click on a row shows its traceback."
    )
    table: ClassVar = FAILURE_COLUMNS[:-1]
    widths: ClassVar = {"prefix": 170, "exception": 130, "message": 320, "worker": 150}
    nothing = "No attempt has failed."

    def below(self) -> Sequence[Any]:
        """Return the place of a traceback."""
        self._open: Hashable = None
        self._trace = Div(
            text="", disable_math=True, sizing_mode="stretch_width",
            stylesheets=[InlineStyleSheet(css=_TRACE)],
        )  # fmt: skip
        return (self._trace,)

    def rows(self, view: View) -> Sequence[FailureRow]:
        """Return a row for each kind of failure."""
        return failure_rows(view.snapshot)

    def key(self, of: FailureRow) -> Hashable:
        """Return prefix, exception and traceback."""
        failure = of.failure
        return failure.prefix, failure.exception, failure.traceback

    def prefix(self, of: FailureRow) -> str:
        """Return its prefix."""
        return of.failure.prefix

    def pick(self, key: Any) -> None:
        """Open a traceback, and choose its prefix."""
        self._open = None if key is None else key[:2]
        self._trace.text = "" if key is None else f"<pre>{html.escape(key[2])}</pre>"
        self.choose(prefix=None if key is None else key[0])

    def picked(self) -> Hashable:
        """Return the kind whose traceback is open."""
        return next((key for key in self._keys if key[:2] == self._open), None)  # type: ignore[index]


class WorkersPanel(TablePanel):
    """What each worker does."""

    name = "workers"
    title = "Workers"
    caption = (
        "What each worker did. Time: how many times as long its tasks take as those of the same "
        "prefixes elsewhere. A click on a row shows that worker alone on the whole page."
    )
    highlights = frozenset({"prefix", "worker", "span", "window"})
    coloured = False
    table = WORKER_COLUMNS
    widths: ClassVar = {"worker": 190, "interval": 80}
    nothing = "There is no worker yet."

    def rows(self, view: View) -> Sequence[WorkerRow]:
        """Return a row for each worker."""
        return worker_rows(view.snapshot)

    def key(self, of: WorkerRow) -> Hashable:
        """Return its address."""
        return of.worker.address

    def prefix(self, of: WorkerRow) -> str:  # noqa: ARG002 (a worker has none)
        """Return nothing."""
        return ""

    def pick(self, key: Any) -> None:
        """Choose a worker."""
        self.choose(worker=key)

    def picked(self) -> Hashable:
        """Return the chosen worker."""
        return self.selection.worker
