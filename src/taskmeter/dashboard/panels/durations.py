"""Durations side by side: boxes, whiskers, outliers, and what is in flight."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bokeh.layouts import column, row
from bokeh.models import (
    ColumnDataSource,
    FixedTicker,
    HBar,
    Range1d,
    Scatter,
    Segment,
    TeeHead,
    Whisker,
)
from bokeh.plotting import figure

from taskmeter.dashboard.panels.style import (
    INK,
    chart,
    draw,
    hover,
    legend,
    note,
    say,
    select,
    ticks,
)
from taskmeter.snapshots.stats import COMPUTE
from taskmeter.text import percentage, seconds
from taskmeter.views.figures.boxes import BY, SORTS, BoxRow, actions, boxes, wants_log
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import BLUE, GREY, ORANGE, SKY, VERMILLION
from taskmeter.views.figures.view import View

AUTO: Final = "automatic"
LINEAR: Final = "linear"
LOG: Final = "logarithmic"

#: How far above the middle of a row attempts in flight stand, and below it the mean.
_ABOVE: Final = 0.36
_BELOW: Final = 0.36

_BOX_TIPS: Final = (
    ("", "@name"),
    ("count", "@count{0,0}"),
    ("median", "@median_text"),
    ("p25 - p75", "@box_text"),
    ("p5 - p95", "@whiskers_text"),
    ("mean ± std", "@mean_text"),
    ("min - max", "@range_text"),
    ("p99", "@p99_text"),
    ("in flight", "@running{0,0}"),
)

#: The columns of the source of boxes.
BOX_COLUMNS: Final = (
    "y", "name", "count", "running", "p5", "p25", "p50", "p75", "p95", "mean", "lower", "upper",
    "mean_y", "median_text", "box_text", "whiskers_text", "mean_text", "range_text", "p99_text",
)  # fmt: skip


def box_columns(rows: Sequence[BoxRow], *, log: bool) -> dict[str, list[Any]]:
    """Return the boxes as columns; what an axis cannot show stands at its end.

    Parameters
    ----------
    rows
        One for each box, from top to bottom.
    log
        The axis is logarithmic: 0 and what is below have no place on it.
    """
    least = _least(rows)

    def placed(value: float) -> float:
        return max(value, least) if log else value

    columns: dict[str, list[Any]] = {name: [] for name in BOX_COLUMNS}
    for y, one in enumerate(rows):
        s = one.spread
        std = 0.0 if math.isnan(s.std) else s.std
        values = {
            "y": y,
            "name": label(one.name, 60),
            "count": s.count,
            "running": one.running,
            **{name: placed(getattr(s, name)) for name in ("p5", "p25", "p50", "p75", "p95")},
            "mean": placed(s.mean),
            "lower": placed(s.mean - std),
            "upper": placed(s.mean + std),
            "mean_y": y + _BELOW,
            "median_text": seconds(s.p50),
            "box_text": f"{seconds(s.p25)} - {seconds(s.p75)}",
            "whiskers_text": f"{seconds(s.p5)} - {seconds(s.p95)}",
            "mean_text": f"{seconds(s.mean)} ± {seconds(s.std) or '-'}",
            "range_text": f"{seconds(one.minimum)} - {seconds(one.maximum)}",
            "p99_text": seconds(s.p99),
        }
        for name, value in values.items():
            columns[name].append(value)
    return columns


def mark_columns(rows: Sequence[BoxRow], *, log: bool) -> tuple[dict[str, list[Any]], ...]:
    """Return the marks of attempts in flight, and those of outliers, as columns."""
    least = _least(rows)
    running: dict[str, list[Any]] = {name: [] for name in ("x", "y", "name", "text")}
    beyond: dict[str, list[Any]] = {name: [] for name in ("x", "y", "name", "text")}
    for y, one in enumerate(rows):
        name = label(one.name, 60)
        marks = [(running, y - _ABOVE, age, f"in flight for {seconds(age)}") for age in one.ages]
        marks += [
            (beyond, y, value, f"{count:,} x about {seconds(value)}")
            for value, count in one.outliers
        ]
        for columns, place, value, text in marks:
            columns["x"].append(max(value, least) if log else value)
            columns["y"].append(place)
            columns["name"].append(name)
            columns["text"].append(text)
    return running, beyond


def _least(rows: Sequence[BoxRow]) -> float:
    values = [
        value for one in rows for value in (one.minimum, one.spread.p5, *one.ages) if value > 0
    ]
    return min(values, default=1e-6)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    rows: tuple[BoxRow, ...]
    actions: tuple[str, ...]
    log: bool
    boxes: dict[str, list[Any]]
    running: dict[str, list[Any]]
    beyond: dict[str, list[Any]]


class DurationsPanel:
    """Durations side by side."""

    name = "durations"
    every = 1
    title = "Durations"
    caption = (
        "Box: p25 to p75 with the median; whiskers: p5 to p95; below it mean ± one standard "
        "deviation; above it attempts in flight at their present age."
    )

    def __init__(self) -> None:
        self._by = select("one box for each", BY, "prefix", width=90)
        self._action = select("duration of", (COMPUTE,), COMPUTE, width=165)
        self._sort = select("order by", list(SORTS.items()), "total", width=105)
        self._scale = select("axis", (AUTO, LOG, LINEAR), AUTO, width=105)
        self.controls = [self._by, self._action, self._sort, self._scale]
        self._boxes = ColumnDataSource({name: [] for name in BOX_COLUMNS}, name="boxes")
        marks = ("x", "y", "name", "text")
        self._running = ColumnDataSource({name: [] for name in marks}, name="in flight")
        self._beyond = ColumnDataSource({name: [] for name in marks}, name="outliers")
        self._rows = Range1d(0.5, -0.5)
        self._ticker = FixedTicker(ticks=[])
        self._log = False
        self.plots = [self._draw("linear"), self._draw("log")]
        self._note = note("", margin=(0, 4, 0, 4))
        self.plots[1].visible = False
        self._bar = row(*self.controls, sizing_mode="stretch_width")
        self.root = column(
            self._bar, *self.plots, self._note, sizing_mode="stretch_both", name=self.name
        )

    def _draw(self, scale: str) -> figure:
        plot = chart(
            x_axis_type=scale, y_range=self._rows, min_height=200,
        )  # fmt: skip
        plot.xaxis.formatter = ticks("duration")
        plot.yaxis.ticker = self._ticker
        plot.ygrid.grid_line_color = None
        whiskers = [
            draw(plot, self._boxes, Segment(x0=x0, y0="y", x1=x1, y1="y", line_color=GREY))
            for x0, x1 in (("p5", "p25"), ("p75", "p95"))
        ]
        ends = [draw(plot, self._boxes, _upright(x, 11, line_color=GREY)) for x in ("p5", "p95")]
        box = draw(
            plot,
            self._boxes,
            HBar(y="y", left="p25", right="p75", height=0.46, fill_color=SKY, fill_alpha=0.75,
                 line_color=BLUE),
        )  # fmt: skip
        # a box narrower than a pixel still shows where it is
        median = draw(
            plot, self._boxes, _upright("p50", 17, line_color=INK, line_width=2.5, tags=["ink"])
        )
        beyond = draw(
            plot,
            self._beyond,
            Scatter(x="x", y="y", size=4.5, fill_color=None, line_color=GREY, line_alpha=0.9),
        )
        plot.add_layout(
            Whisker(
                source=self._boxes, base="mean_y", lower="lower", upper="upper", dimension="width",
                line_color=ORANGE, line_width=1.5, level="annotation",
                **{end: TeeHead(size=6, line_color=ORANGE, line_width=1.5)
                   for end in ("lower_head", "upper_head")},
            )
        )  # fmt: skip
        # a whisker does not take part in the range of an axis, but points do
        spans = [
            draw(plot, self._boxes, Scatter(x=x, y="mean_y", size=1, fill_alpha=0, line_alpha=0))
            for x in ("lower", "upper")
        ]
        mean = draw(
            plot,
            self._boxes,
            Scatter(x="mean", y="mean_y", marker="diamond", size=8, fill_color=ORANGE,
                    line_color=ORANGE),
        )  # fmt: skip
        running = draw(
            plot,
            self._running,
            Scatter(x="x", y="y", marker="inverted_triangle", size=8, fill_alpha=0.85,
                    fill_color=VERMILLION, line_color=None),
        )  # fmt: skip
        legend(
            plot,
            [
                ("p25 - p75", [box]),
                ("median", [median]),
                ("p5 - p95", [*whiskers, *ends]),
                ("mean ± std", [mean, *spans]),
                ("outliers", [beyond]),
                ("in flight", [running]),
            ],
        )
        hover(plot, [box, *whiskers, median, mean], _BOX_TIPS)
        hover(plot, [running, beyond], (("", "@name"), ("", "@text")))
        return plot

    def job(self, view: View) -> Callable[[], _Found]:
        """Return the work for what is chosen now."""
        return partial(
            _find,
            view,
            by=self._by.value,
            action=self._action.value,
            sort=self._sort.value,
            scale=self._scale.value,
            was_log=self._log,
        )

    def show(self, found: _Found) -> None:
        """Draw what that gave."""
        if list(self._action.options) != list(found.actions):
            self._action.options = list(found.actions)
            if self._action.value not in found.actions:
                self._action.value = found.actions[0]
        self._boxes.data = found.boxes
        self._running.data = found.running
        self._beyond.data = found.beyond
        self._ticker.ticks = list(range(len(found.rows)))
        names = {y: label(one.name) for y, one in enumerate(found.rows)}
        for plot in self.plots:
            plot.yaxis[0].major_label_overrides = names
        self._rows.start, self._rows.end = max(len(found.rows), 1) - 0.4, -0.6
        if found.log != self._log:
            self._log = found.log
            for log, plot in enumerate(self.plots):
                plot.visible = bool(log) is found.log
        say(self._note, _remark(found.rows))


def _upright(x: str, size: float, **options: Any) -> Scatter:
    """Return a short line across a row."""
    return Scatter(x=x, y="y", marker="dash", angle=math.pi / 2, size=size, **options)


def _find(view: View, *, by: str, action: str, sort: str, scale: str, was_log: bool) -> _Found:
    known = actions(view.snapshot, by)
    rows = boxes(view.snapshot, by=by, action=action if action in known else known[0], sort=sort)
    log = scale == LOG or (scale == AUTO and wants_log(rows, now_log=was_log))
    running, beyond = mark_columns(rows, log=log)
    return _Found(
        rows=rows,
        actions=known,
        log=log,
        boxes=box_columns(rows, log=log),
        running=running,
        beyond=beyond,
    )


def _remark(rows: Sequence[BoxRow]) -> str:
    if not rows:
        return "Nothing is known of this yet."
    marks = sum(len(one.ages) for one in rows)
    running = sum(one.running for one in rows)
    if marks < running:
        return f"{running:,} in flight; marks are the oldest {percentage(marks / running)} of them."
    return ""
