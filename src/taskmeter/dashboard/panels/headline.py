"""The cluster in a line of figures."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from functools import partial
from typing import Final

from bokeh.models import Div, InlineStyleSheet

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
    """Return ``(what, figure)`` of the cluster as a whole."""
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


class HeadlinePanel:
    """The cluster in a line of figures."""

    name = "headline"
    every = 1
    title = ""
    caption = ""

    def __init__(self) -> None:
        self.root = Div(
            text="", disable_math=True, sizing_mode="stretch_width", name=self.name,
            stylesheets=[InlineStyleSheet(css=_STYLE)],
        )  # fmt: skip
        self.plots: list[object] = []
        self.controls: list[object] = []

    def job(self, view: View) -> Callable[[], str]:
        """Return the work."""
        return partial(_find, view)

    def show(self, found: str) -> None:
        """Draw what that gave."""
        if self.root.text != found:
            self.root.text = found


def _find(view: View) -> str:
    entries = "".join(
        f'<div class="one"><dt>{html.escape(what)}</dt><dd>{html.escape(figure)}</dd></div>'
        for what, figure in headline(view)
    )
    return f"<dl>{entries}</dl>"
