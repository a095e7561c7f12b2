"""Durations side by side: boxes, whiskers, outliers, and what is in flight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from bokeh.layouts import row
from bokeh.models import (
    HBar,
    Scatter,
    Segment,
    TapTool,
    TeeHead,
    Whisker,
)
from bokeh.plotting import figure

from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.style import (
    INK,
    NamedRows,
    chart,
    draw,
    duration_axis,
    hover,
    legend,
    offer,
    select,
)
from taskmeter.snapshots.stats import COMPUTE
from taskmeter.text import percentage, seconds
from taskmeter.views.figures.boxes import BY, SORTS, BoxRow, actions, boxes, wants_log
from taskmeter.views.figures.label import LONGEST_LABEL, label
from taskmeter.views.figures.palette import GREY, ORANGE, VERMILLION
from taskmeter.views.figures.top import REST
from taskmeter.views.figures.view import View

AUTO: Final = "automatic"
LINEAR: Final = "linear"
LOG: Final = "logarithmic"

#: How far above the middle of a row attempts in flight stand, and below it the mean.
_ABOVE: Final = 0.36
_BELOW: Final = 0.36

_BOX_TIPS: Final = (
    ("", "@name"),
    ("count", "@count{0,0} @remark"),
    ("median", "@median_text"),
    ("p25 - p75", "@box_text"),
    ("p5 - p95", "@whiskers_text"),
    ("within the fences", "@fences_text"),
    ("mean ± std", "@mean_text"),
    ("min - max", "@range_text"),
    ("p99", "@p99_text"),
    ("in flight", "@running{0,0}"),
)

#: The columns of the source of boxes.
BOX_COLUMNS: Final = (
    "y", "name", "colour", "remark", "count", "running", "p5", "p25", "p50", "p75", "p95", "mean",
    "lower", "upper", "mean_y", "median_text", "box_text", "whiskers_text", "fences_text",
    "mean_text", "range_text", "p99_text",
)  # fmt: skip

_MARK_COLUMNS: Final = ("x", "y", "name", "text")


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
    for y, row_ in enumerate(rows):
        s = row_.spread
        std = 0.0 if math.isnan(s.std) else s.std
        values = {
            "y": y,
            "name": label(row_.name, 60),
            "colour": VERMILLION if row_.failed else row_.colour,
            "remark": row_.remark,
            "count": s.count,
            "running": row_.running,
            **{name: placed(getattr(s, name)) for name in ("p5", "p25", "p50", "p75", "p95")},
            "mean": placed(s.mean),
            "lower": placed(s.mean - std),
            "upper": placed(s.mean + std),
            "mean_y": y + _BELOW,
            "median_text": seconds(s.p50),
            "box_text": f"{seconds(s.p25)} - {seconds(s.p75)}",
            "whiskers_text": f"{seconds(s.p5)} - {seconds(s.p95)}",
            "fences_text": " - ".join(map(seconds, row_.whiskers)),
            "mean_text": f"{seconds(s.mean)} ± {seconds(s.std) or '-'}",
            "range_text": f"{seconds(row_.minimum)} - {seconds(row_.maximum)}",
            "p99_text": seconds(s.p99),
        }
        for name, value in values.items():
            columns[name].append(value)
    return columns


def mark_columns(rows: Sequence[BoxRow], *, log: bool) -> tuple[dict[str, list[Any]], ...]:
    """Return the marks of attempts in flight, and those of outliers, as columns."""
    least = _least(rows)
    running: dict[str, list[Any]] = {name: [] for name in _MARK_COLUMNS}
    beyond: dict[str, list[Any]] = {name: [] for name in _MARK_COLUMNS}
    for y, row_ in enumerate(rows):
        name = label(row_.name, 60)
        marks = [(running, y - _ABOVE, age, f"in flight for {seconds(age)}") for age in row_.ages]
        marks += [
            (beyond, y, value, f"{count:,} x about {seconds(value)}")
            for value, count in row_.outliers
        ]
        for columns, place, value, text in marks:
            columns["x"].append(max(value, least) if log else value)
            columns["y"].append(place)
            columns["name"].append(name)
            columns["text"].append(text)
    return running, beyond


def _least(rows: Sequence[BoxRow]) -> float:
    values = [
        value for row_ in rows for value in (row_.minimum, row_.spread.p5, *row_.ages) if value > 0
    ]
    return min(values, default=1e-6)


class DurationsPanel(Panel):
    """Durations side by side."""

    name = "durations"
    every = 1
    title = "Durations"
    caption = (
        "Box: p25 to p75 with the median; whiskers: p5 to p95; below it mean ± one standard "
        "deviation; above it attempts in flight at their present age."
    )

    def __init__(self) -> None:
        super().__init__()
        self._by = select("one box for each", BY, "prefix", width=108)
        self._action = select("duration of", (COMPUTE,), COMPUTE, width=165)
        self._sort = select("order by", list(SORTS.items()), "total", width=105)
        self._scale = select("axis", (AUTO, LOG, LINEAR), AUTO, width=105)
        self.controls = [self._by, self._action, self._sort, self._scale]
        self._boxes = self.source("boxes", *BOX_COLUMNS)
        self._running = self.source("in flight", *_MARK_COLUMNS)
        self._beyond = self.source("outliers", *_MARK_COLUMNS)
        self._rows = NamedRows()
        self._log = False
        self.plots = [self._draw("linear"), self._draw("log")]
        self.plots[1].visible = False
        self._names: tuple[str, ...] = ()
        self._boxes.selected.on_change("indices", self._tapped)
        self.lay_out(*self.plots, controls=row(*self.controls, styles={"flex-wrap": "wrap"}))

    def _tapped(self, attr: str, old: Any, new: Sequence[int]) -> None:  # noqa: ARG002 (Bokeh's)
        if new and new[0] < len(self._names) and self._by.value == "prefix":
            name = self._names[new[0]]
            self.choose(**({} if name == REST else {"prefix": name}))

    def _draw(self, scale: str) -> figure:
        plot = chart(
            x_axis_type=scale, y_range=self._rows.range, min_height=200,
        )  # fmt: skip
        duration_axis(plot)
        self._rows.on(plot.yaxis)
        plot.ygrid.grid_line_color = None
        whiskers = [
            draw(plot, self._boxes, Segment(x0=x0, y0="y", x1=x1, y1="y", line_color=GREY))
            for x0, x1 in (("p5", "p25"), ("p75", "p95"))
        ]
        ends = [draw(plot, self._boxes, _upright(x, 11, line_color=GREY)) for x in ("p5", "p95")]
        box = draw(
            plot,
            self._boxes,
            HBar(y="y", left="p25", right="p75", height=0.46, fill_color="colour", fill_alpha=0.7,
                 line_color=GREY),
        )  # fmt: skip
        box.nonselection_glyph = box.selection_glyph = None
        plot.add_tools(TapTool(renderers=[box]))
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

    def state(self) -> dict[str, Any]:
        """Return whether the axis is logarithmic now."""
        return {"was_log": self._log}

    def work(
        self, view: View, by: str, action: str, sort: str, scale: str, *, was_log: bool
    ) -> Update:
        """Return the boxes and the marks."""
        known = actions(view.snapshot, by)
        rows = boxes(
            view.snapshot, by=by, action=action if action in known else known[0], sort=sort
        )
        log = scale == LOG or (scale == AUTO and wants_log(rows, now_log=was_log))
        running, beyond = mark_columns(rows, log=log)
        return Update(
            columns={
                "boxes": box_columns(rows, log=log), "in flight": running, "outliers": beyond,
            },
            note=_remark(rows),
            empty=not rows,
            extra=(known, rows, log),
        )  # fmt: skip

    def dress(self, update: Update) -> None:
        """Offer the actions, name the boxes, and show the axis that suits them."""
        known, rows, log = update.extra
        self._names = tuple(row.name for row in rows)
        self._boxes.selected.indices = []
        offer(self._action, known)
        self._rows.name([_row_label(row) for row in rows])
        if log != self._log:
            self._log = log
            for plot, is_log in zip(self.plots, (False, True), strict=True):
                plot.visible = is_log is log


def _row_label(row: BoxRow) -> str:
    remark = f" ({row.remark})" if row.remark else ""
    return label(row.name, max(20, LONGEST_LABEL - len(remark))) + remark


def _upright(x: str, size: float, **options: Any) -> Scatter:
    """Return a short line across a row."""
    return Scatter(x=x, y="y", marker="dash", angle=math.pi / 2, size=size, **options)


def _remark(rows: Sequence[BoxRow]) -> str:
    if not rows:
        return "Nothing is known of this yet."
    marks = sum(len(row_.ages) for row_ in rows)
    running = sum(row_.running for row_ in rows)
    if marks < running:
        return f"{running:,} in flight; marks are the oldest {percentage(marks / running)} of them."
    return ""
