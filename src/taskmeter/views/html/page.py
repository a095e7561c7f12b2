"""The report as one page of HTML, which loads nothing and runs no script but its own.

The drawings are SVG that is part of the page. So it takes 100 kB rather than the 4 MB of a plotting
library, its pictures follow the reader's theme, can be printed and searched, and are there before
any script has run.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskmeter.history.moment import Moment
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration, terminal_safe
from taskmeter.views.html.area import area, legend
from taskmeter.views.html.boxplot import boxplot
from taskmeter.views.html.breakdown import breakdown
from taskmeter.views.html.document import rendered
from taskmeter.views.html.facts import Facts, instant, listed
from taskmeter.views.html.shapes import shapes
from taskmeter.views.html.tables import tables
from taskmeter.views.strip import strip
from taskmeter.views.tables.summary import sentences
from taskmeter.views.tables.transfers import MOVED_COLUMNS, moved


def page(snapshot: Snapshot, *, facts: Facts | None = None, moments: Sequence[Moment] = ()) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    snapshot
        What it is about; of a window, what was added in it.
    facts
        Where it comes from.
    moments
        The course of the same time; with fewer than two there is no drawing of it.
    """
    facts = Facts() if facts is None else facts
    return rendered(
        "page.html",
        title=terminal_safe(facts.title[:200]),
        note=facts.note,
        source=terminal_safe(facts.source[:200]),
        begin=instant(snapshot.start),
        length=duration(snapshot.elapsed_seconds),
        strip=strip(snapshot),
        sentences=sentences(snapshot),
        listed=listed(snapshot, facts),
        breakdown=breakdown(snapshot),
        area=area(moments),
        legend=legend(moments),
        boxplot=boxplot(snapshot),
        shapes=shapes(snapshot),
        moved=_moved(snapshot),
        tables=tables(snapshot),
    )


def _moved(snapshot: Snapshot) -> list[list[str]]:
    """Return titles and rows on all transfers; nothing if there were none."""
    if not snapshot.transfers.seconds.count:
        return []
    rows = [[column.cell(row) for column in MOVED_COLUMNS] for row in moved(snapshot.transfers)]
    return [[column.title for column in MOVED_COLUMNS], *rows]
