"""Two runs beside each other, for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.text import Text

from taskmeter.history.comparison import Comparison
from taskmeter.views.tables.comparison import (
    CAPACITY_COLUMNS,
    CHANGE_COLUMNS,
    capacity_changes,
    sentences,
)
from taskmeter.views.terminal.tables import grid


def comparison_view(
    found: Comparison, *, title: str, width: int, top: int, fail_above: float | None = None
) -> Group:
    """Return sentences, a table of prefixes and one of the capacity, for rich to print.

    Parameters
    ----------
    found
        The comparison.
    title
        Stands above.
    width
        Characters there are.
    top
        Prefixes that have a row.
    fail_above
        As for `taskmeter.views.tables.comparison.sentences`.
    """
    parts: list[Any] = [Text(title, style="bold cyan")]
    parts += [Text(said) for said in sentences(found, fail_above)]
    shown = found.changes[:top]
    if shown:
        parts += [Text(""), grid(shown, CHANGE_COLUMNS, width=width)]
        if len(found.changes) > top:
            more = len(found.changes) - top
            parts.append(Text(f"Prefixes not shown: {more:,}; --top shows more"))
    parts.append(Text(""))
    parts.append(grid(capacity_changes(found.before, found.after), CAPACITY_COLUMNS, width=width))
    return Group(*parts)
