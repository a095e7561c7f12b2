"""The page of recorded runs, each with a link to its report."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from taskmeter.history.runs import Run
from taskmeter.text import terminal_safe
from taskmeter.views.html.document import rendered
from taskmeter.views.tables.runs import RUN_COLUMNS


def runs_page(folder: str, runs: Sequence[Run]) -> str:
    """Return the table of runs as HTML; the report of a run is at ``run/NAME``."""
    columns = [column for column in RUN_COLUMNS if column.shown(runs)]
    return rendered(
        "runs.html",
        title=f"taskmeter: runs in {terminal_safe(folder[:200])}",
        columns=columns,
        rows=[
            (f"run/{quote(run.name, errors='surrogatepass')}", [c.cell(run) for c in columns])
            for run in runs
        ],
    )
