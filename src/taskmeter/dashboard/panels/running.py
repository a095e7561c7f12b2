"""The table of what runs now. Text becomes HTML here, and every name is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bokeh.layouts import column
from bokeh.models import Div, InlineStyleSheet

from taskmeter.text import percentage, seconds, shorten, terminal_safe
from taskmeter.views.figures.running import RunningRow, RunningTable, running_table
from taskmeter.views.figures.view import View

_STYLE: Final = """
:host { color: inherit; font-size: 12px; overflow: auto; }
.bk-clearfix, .bk-clearfix > div { width: 100%; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0 4px 6px; }
th { position: sticky; top: 0; text-align: left; font-weight: 600; font-size: 11px; opacity: 0.75;
     padding: 3px 6px; border-bottom: 1px solid #9996; white-space: nowrap; }
td { padding: 2px 6px; border-bottom: 1px solid #9993; white-space: nowrap; max-width: 18em;
     overflow: hidden; text-overflow: ellipsis; }
.n { text-align: right; }
.where { max-width: 16em; opacity: 0.75; }
.stalled, .late, .slow, .cancelled { border-radius: 3px; padding: 0 5px; font-size: 11px; }
.stalled { background: #D55E00; color: white; }
.late { background: #E69F00; color: black; }
.slow { background: #56B4E966; }
.cancelled { background: #9996; }
.track { position: relative; display: inline-block; width: 120px; height: 12px;
         vertical-align: middle; background: linear-gradient(#9993, #9993) 0 5px / 100% 2px
         no-repeat; }
.track i { position: absolute; top: 1px; height: 10px; width: 2px; background: #8C8C8C; }
.track b { position: absolute; top: 2px; height: 8px; width: 8px; margin-left: -4px;
           border-radius: 4px; background: #0072B2; }
.track b.late, .track b.stalled { background: #D55E00; padding: 0; }
@media (prefers-color-scheme: dark) { .track b { background: #56B4E9; } }
"""

_HEADINGS: Final = (
    ("", ""), ("prefix", ""), ("key", ""), ("worker", ""), ("age", "n"),
    ("age | p50 p95 p99", ""), ("p50", "n"), ("p95", "n"), ("p99", "n"), ("CPU", "n"),
    ("where it stands still", ""),
)  # fmt: skip


def running_html(table: RunningTable) -> str:
    """Return the table as HTML in which every text is escaped."""
    head = "".join(f'<th class="{kind}">{html.escape(text)}</th>' for text, kind in _HEADINGS)
    body = "".join(_row(one) for one in table.rows)
    return (
        f"<table><caption>{html.escape(_caption(table))}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _caption(table: RunningTable) -> str:
    if not table.total:
        return "Nothing runs now."
    shown = f", {len(table.rows)} of them shown" if len(table.rows) < table.total else ""
    return (
        f"{table.total:,} in flight{shown}: {table.stalled:,} stalled, {table.late:,} late "
        "(longer than 99 % of their prefix)."
    )


def _row(one: RunningRow) -> str:
    state = one.state
    mark = f'<span class="{state}">{state}</span>' if state else ""
    cpu = "" if math.isnan(one.cpu_share) else percentage(one.cpu_share)
    cells = [
        f"<td>{mark}</td>",
        _text(one.attempt.prefix),
        _text(one.attempt.key),
        _text(one.worker),
        f'<td class="n">{seconds(one.age)}</td>',
        f"<td>{_track(one)}</td>",
        *(f'<td class="n">{seconds(figure)}</td>' for figure in (one.p50, one.p95, one.p99)),
        f'<td class="n">{cpu}</td>',
        _text(one.attempt.frame, "where"),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _text(text: str, kind: str = "") -> str:
    shown = html.escape(shorten(terminal_safe(text[:400]), 48))
    return f'<td class="{kind}" title="{html.escape(terminal_safe(text[:400]))}">{shown}</td>'


def _track(one: RunningRow) -> str:
    """Return age and quantiles as marks on one line."""
    known: Sequence[float] = [q for q in (one.p50, one.p95, one.p99) if not math.isnan(q)]
    longest = max([one.age, *known]) * 1.04
    if not known or not longest:
        return ""
    marks = "".join(f'<i style="left:{100 * q / longest:.1f}%"></i>' for q in known)
    state = one.state if one.state in {"late", "stalled"} else ""
    return (
        f'<span class="track">{marks}'
        f'<b class="{state}" style="left:{100 * one.age / longest:.1f}%"></b></span>'
    )


class RunningPanel:
    """What runs now."""

    name = "running"
    every = 1
    title = "Running now"
    caption = (
        "Attempts in flight beside what their prefix usually takes; those that stand still and "
        "those that are late come first."
    )

    def __init__(self) -> None:
        self._table = Div(
            text="", disable_math=True, sizing_mode="stretch_width",
            stylesheets=[InlineStyleSheet(css=_STYLE)],
        )  # fmt: skip
        self.plots: list[object] = []
        self.controls: list[object] = []
        self.root = column(self._table, sizing_mode="stretch_width", name=self.name)

    def job(self, view: View) -> Callable[[], str]:
        """Return the work."""
        return partial(_find, view)

    def show(self, found: str) -> None:
        """Draw what that gave."""
        if self._table.text != found:
            self._table.text = found


def _find(view: View) -> str:
    return running_html(running_table(view.snapshot))
