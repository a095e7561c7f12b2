"""The table of what runs now. Text becomes HTML here, and every name is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Final

from taskmeter.dashboard.panels.panel import HtmlPanel, Update
from taskmeter.text import percentage, seconds, short_name, terminal_safe
from taskmeter.views.figures.view import View
from taskmeter.views.tables.running import RunningRow, RunningTable, running_table

_STYLE: Final = """
:host { color: inherit; font-size: 12px; overflow: auto; }
.bk-clearfix, .bk-clearfix > div { width: 100%; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
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
    body = "".join(_row(row) for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _caption(table: RunningTable) -> str:
    if not table.total:
        return "Nothing runs now."
    shown = f", {len(table.rows)} of them shown" if len(table.rows) < table.total else ""
    return f"{table.total:,} in flight{shown}; late is what takes longer than 99 % of its prefix."


def _row(row: RunningRow) -> str:
    state = row.state
    mark = f'<span class="{state}">{state}</span>' if state else ""
    cpu = "" if math.isnan(row.cpu_share) else percentage(row.cpu_share)
    cells = [
        f"<td>{mark}</td>",
        _text(row.attempt.prefix),
        _text(row.attempt.key),
        _text(row.worker),
        f'<td class="n">{seconds(row.age)}</td>',
        f"<td>{_track(row)}</td>",
        *(f'<td class="n">{seconds(figure)}</td>' for figure in (row.p50, row.p95, row.p99)),
        f'<td class="n">{cpu}</td>',
        _text(row.attempt.frame, "where"),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _text(text: str, kind: str = "") -> str:
    shown = html.escape(short_name(text, 30) if text else "")
    return f'<td class="{kind}" title="{html.escape(terminal_safe(text[:400]))}">{shown}</td>'


def _track(row: RunningRow) -> str:
    """Return age and quantiles as marks on one line."""
    known: Sequence[float] = [q for q in (row.p50, row.p95, row.p99) if not math.isnan(q)]
    longest = max([row.age, *known]) * 1.04
    if not known or not longest:
        return ""
    marks = "".join(f'<i style="left:{100 * q / longest:.1f}%"></i>' for q in known)
    state = row.state if row.state in {"late", "stalled"} else ""
    return (
        f'<span class="track">{marks}'
        f'<b class="{state}" style="left:{100 * row.age / longest:.1f}%"></b></span>'
    )


class RunningPanel(HtmlPanel):
    """What runs now."""

    name = "running"
    title = "Running now"
    caption = (
        "Attempts in flight beside what their prefix usually takes; those that stand still and "
        "those that are late come first."
    )

    def __init__(self) -> None:
        super().__init__(_STYLE)
        self.lay_out(self._html, mode="stretch_width")

    def work(self, view: View) -> Update:
        """Return the table as HTML."""
        table = running_table(view.snapshot)
        return Update(extra=running_html(table), note=_caption(table), empty=not table.rows)
