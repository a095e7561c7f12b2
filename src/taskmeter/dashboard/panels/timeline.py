"""The timeline: the latest attempts as bars, by worker and thread."""

from __future__ import annotations

from typing import Any, Final

from bokeh.models import HBar, Scatter, TapTool

from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.style import (
    NamedRows,
    chart,
    choose_time,
    draw,
    hover,
    legend,
    time_axis,
    time_of_day,
)
from taskmeter.text import duration
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import GREY, VERMILLION, prefix_colour
from taskmeter.views.figures.timeline import Timeline, timeline
from taskmeter.views.figures.view import View

_COLUMNS: Final = ("lane", "start", "stop", "colour", "alpha", "prefix", "key", "text")


class TimelinePanel(Panel):
    """The latest attempts."""

    name = "timeline"
    every = 2
    title = "Timeline"
    caption = (
        "The latest attempts by worker and thread, coloured by prefix; pale: still running; a "
        "cross: not ended well. Dragging chooses a time, a click on a bar its prefix."
    )

    def __init__(self) -> None:
        super().__init__()
        self._bars = self.source("attempts", *_COLUMNS)
        self._bad = self.source("bad attempts", "lane", "stop")
        self._rows = NamedRows()
        self._prefixes: tuple[str, ...] = ()
        plot = chart(y_range=self._rows.range, min_height=180)
        self._rows.on(plot.yaxis)
        plot.ygrid.grid_line_color = None
        time_axis(plot)
        bars = draw(
            plot,
            self._bars,
            HBar(y="lane", left="start", right="stop", height=0.8, fill_color="colour",
                 fill_alpha="alpha", line_color=GREY, line_width=0.5),
        )  # fmt: skip
        bars.nonselection_glyph = bars.selection_glyph = None
        bad = draw(
            plot,
            self._bad,
            Scatter(x="stop", y="lane", marker="x", size=9, line_color=VERMILLION, line_width=2),
        )
        legend(plot, [("failed, cancelled or lost", [bad])])
        hover(
            plot, [bars], (("", "@prefix"), ("key", "@key"), ("started", "@start{custom}"),
                           ("", "@text")), **time_of_day("start"),
        )  # fmt: skip
        plot.add_tools(TapTool(renderers=[bars]))
        choose_time(plot, self.choose)
        self._bars.selected.on_change("indices", self._tapped)
        self.plots = [plot]
        self.lay_out(plot)

    def _tapped(self, attr: str, old: Any, new: list[int]) -> None:  # noqa: ARG002 (Bokeh's)
        if new and new[0] < len(self._prefixes) and not self._showing:
            self.choose(prefix=self._prefixes[new[0]])

    def work(self, view: View) -> Update:
        """Return the bars, and the marks of those that did not end well."""
        found = timeline(view.snapshot)
        bars = found.bars
        bad = [bar for bar in bars if bar.outcome not in {"ok", "running"}]
        return Update(
            columns={
                "attempts": {
                    "lane": [bar.lane for bar in bars],
                    "start": [bar.start for bar in bars],
                    "stop": [bar.stop for bar in bars],
                    "colour": [prefix_colour(bar.prefix) for bar in bars],
                    "alpha": [0.35 if bar.outcome == "running" else 0.9 for bar in bars],
                    "prefix": [label(bar.prefix, 60) for bar in bars],
                    "key": [label(bar.key, 60) for bar in bars],
                    "text": [f"{bar.outcome}, {duration(bar.stop - bar.start)}" for bar in bars],
                },
                "bad attempts": {
                    "lane": [bar.lane for bar in bad], "stop": [bar.stop for bar in bad],
                },
            },
            note=_remark(found),
            empty=not bars,
            extra=([label(lane) for lane in found.lanes], tuple(bar.prefix for bar in bars)),
        )  # fmt: skip

    def dress(self, update: Update) -> None:
        """Name the lanes."""
        names, self._prefixes = update.extra
        self._bars.selected.indices = []
        self._rows.name(names)


def _remark(found: Timeline) -> str:
    if not found.bars:
        return "No attempt has ended and none runs."
    hidden = f" {found.hidden_lanes:,} more threads have no room." if found.hidden_lanes else ""
    sample = " Of prefixes with many attempts it is a fair sample." if found.sampled else ""
    return f"{len(found.bars):,} attempts.{sample}{hidden}"
