"""The cluster in a line of figures."""

from __future__ import annotations

import html
import math
from typing import Final

from taskmeter.dashboard.panels.panel import HtmlPanel, Update
from taskmeter.text import duration, percentage
from taskmeter.views.figures.view import View

_STYLE: Final = """
:host { color: inherit; }
.bk-clearfix { width: 100%; }
dl { display: flex; flex-wrap: wrap; gap: 4px 30px; margin: 0; }
div.one { min-width: 5.5em; }
dt { font-size: 11px; opacity: 0.7; }
dd { margin: 0; font-size: 19px; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""


def headline(view: View) -> tuple[tuple[str, str], ...]:
    """Return ``(title, figure)`` of the cluster as a whole."""
    snapshot = view.snapshot
    prefixes = snapshot.prefixes.values()
    wasted = math.fsum(p.wasted_seconds for p in prefixes)
    ok = sum(p.attempts["ok"].count for p in prefixes)
    ended = sum(p.ended for p in prefixes)
    last = view.moments[-1] if view.moments else None
    busy = math.nan if last is None else last.busy_seconds / last.seconds
    rate = math.nan if last is None else last.ended / last.seconds
    compute = snapshot.compute_seconds
    return (
        ("workers", f"{len(snapshot.workers):,}"),
        ("busy threads", f"{_figure(busy)} of {snapshot.nthreads:,}"),
        ("in flight", f"{snapshot.executing:,}"),
        ("tasks a second", _figure(rate)),
        ("ok", f"{ok:,}"),
        ("not ok", f"{ended - ok:,}"),
        ("compute", duration(compute)),
        ("utilisation", percentage(snapshot.utilisation)),
        ("wasted", percentage(wasted / compute if compute else math.nan)),
        ("since", duration(snapshot.elapsed_seconds)),
    )


def _figure(number: float) -> str:
    if math.isnan(number):
        return "-"
    return f"{number:,.0f}" if number >= 99.95 else f"{number:.1f}"


class HeadlinePanel(HtmlPanel):
    """The cluster in a line of figures."""

    name = "headline"
    title = ""
    caption = ""

    def __init__(self) -> None:
        super().__init__(_STYLE, name=self.name)

    def work(self, view: View) -> Update:
        """Return the figures as HTML."""
        entries = "".join(
            f'<div class="one"><dt>{html.escape(title)}</dt><dd>{html.escape(figure)}</dd></div>'
            for title, figure in headline(view)
        )
        return Update(extra=f"<dl>{entries}</dl>")
