"""The distribution of one prefix: histogram, survival, fitted families, what has not ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from bokeh.layouts import row
from bokeh.models import Line, Quad, Scatter, Step

from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.style import (
    chart,
    draw,
    duration_axis,
    hover,
    legend,
    offer,
    select,
    ticks,
)
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE
from taskmeter.text import seconds
from taskmeter.views.figures.boxes import FAILED, RECENT, actions, distributions
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    prefix_colour,
)
from taskmeter.views.figures.shape import (
    BAR_COLUMNS,
    Curve,
    Families,
    bar_columns,
    censored,
    families,
    floor,
    survival,
)
from taskmeter.views.figures.view import View
from taskmeter.views.tables.running import age

#: Marks of attempts in flight.
_MOST_MARKS: Final = 200

#: Fitted families that are shown, with colour and dash.
_FITS: Final = ((ORANGE, "solid"), (GREEN, "dashed"), (PURPLE, "dotted"))

#: A fit is made anew when there are so many more values.
_GROWTH: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    """Families, and what they were fitted to."""

    prefix: str = ""
    action: str = ""
    count: int = 0
    families: Families = field(default_factory=Families)

    def of(self, prefix: str, action: str, d: Distribution) -> _Fitted:
        """Return the families of a distribution: these, if it has hardly changed."""
        same = (prefix, action) == (self.prefix, self.action) and self.count <= d.count
        if same and d.count <= self.count * _GROWTH:
            return self
        return _Fitted(prefix=prefix, action=action, count=d.count, families=families(d))


class DistributionPanel(Panel):
    """The distribution of one prefix."""

    name = "distribution"
    every = 2
    title = "Distribution of one prefix"
    caption = (
        "Of the chosen prefix, or of the one that took most time. Left: how many attempts took how "
        "long. Right: the share that took longer, with fitted families. Red: in flight, by age."
    )

    def __init__(self) -> None:
        super().__init__()
        self._action = select("duration of", (COMPUTE,), COMPUTE, width=165)
        self.controls = [self._action]
        self._fitted = _Fitted()
        self._bars = self.source("bars", *BAR_COLUMNS)
        self._survival = self.source("survival", "x", "share", "text")
        self._marks = self.source("marks", "x", "share", "text")
        self._low_marks = self.source("low marks", "x", "y", "text")
        self._curves = [self.source(f"fit {n}", "x", "share") for n in range(len(_FITS))]
        self.plots = [self._draw_histogram(), self._draw_survival()]
        self.lay_out(
            row(*self.plots, sizing_mode="stretch_both"),
            controls=row(*self.controls, sizing_mode="stretch_width"),
        )

    def _draw_histogram(self) -> Any:
        plot = chart(x_axis_type="log", min_height=150, min_width=180)
        duration_axis(plot)
        plot.yaxis.axis_label = "attempts"
        plot.y_range.start = 0
        drawn = self._histogram = draw(
            plot,
            self._bars,
            Quad(left="left", right="right", bottom=0, top="count", fill_color=SKY, fill_alpha=0.8,
                 line_color=GREY, line_width=0.5),
        )  # fmt: skip
        running = draw(
            plot,
            self._low_marks,
            Scatter(x="x", y="y", marker="inverted_triangle", size=8, fill_color=VERMILLION,
                    line_color=None, fill_alpha=0.8),
        )  # fmt: skip
        hover(plot, [drawn], (("took", "@text"), ("attempts", "@count{0,0}"), ("share", "@share")))
        hover(plot, [running], (("in flight for", "@text"),))
        return plot

    def _draw_survival(self) -> Any:
        plot = chart(x_axis_type="log", y_axis_type="log", min_height=150, min_width=200)
        duration_axis(plot)
        plot.yaxis.formatter = ticks("share")
        plot.y_range.end = 1.3
        plot.yaxis.axis_label = "took longer"
        fits = [
            draw(
                plot,
                source,
                Line(x="x", y="share", line_color=colour, line_dash=dash, line_width=1.8),
            )
            for source, (colour, dash) in zip(self._curves, _FITS, strict=True)
        ]
        seen = draw(
            plot,
            self._survival,
            Step(x="x", y="share", mode="after", line_color=BLUE, line_width=2),
        )
        running = draw(
            plot,
            self._marks,
            Scatter(x="x", y="share", marker="cross", size=9, line_color=VERMILLION,
                    line_width=1.6),
        )  # fmt: skip
        hover(plot, [seen], (("longer than", "@text"), ("share", "@share{0.00 %}")))
        hover(plot, [running], (("in flight for", "@text"), ("longer took", "@share{0.00 %}")))
        items = [("attempts", [seen]), ("in flight", [running]), *(("", [fit]) for fit in fits)]
        _, self._flying, *self._fits = legend(plot, items, place="bottom_left").items
        return plot

    def state(self) -> dict[str, Any]:
        """Return what was fitted last, and the prefix that is chosen."""
        return {"fitted": self._fitted, "chosen": self.selection.prefix}

    def work(self, view: View, action: str, *, fitted: _Fitted, chosen: str | None) -> Update:
        """Return the histogram, the survival function, the fits and the marks."""
        snapshot = view.snapshot
        every = distributions(snapshot, "prefix", action)
        prefix = chosen if chosen is not None else _largest(every)
        d = every.get(prefix, Distribution())
        failed = Distribution()
        if action == COMPUTE and prefix in every and not d.count:
            d = failed = snapshot.prefixes[prefix].failed_durations
        ages = _ages(snapshot, prefix) if action in {COMPUTE, RECENT, FAILED} else []
        fitted = fitted.of(prefix, action, d)
        marks = ages[:_MOST_MARKS]
        curves = [fit.curve for fit in fitted.families.fitted]
        curves += [Curve(x=np.zeros(0), share=np.zeros(0))] * (len(_FITS) - len(curves))
        return Update(
            columns={
                "bars": bar_columns(d, seconds),
                "survival": survival_columns(d),
                "marks": mark_columns(d, marks),
                "low marks": {
                    "x": marks, "y": [0.0] * len(marks), "text": [seconds(a) for a in marks],
                },
                **{f"fit {n}": {"x": c.x, "share": c.share} for n, c in enumerate(curves)},
            },
            note=_remark(prefix, d, ages, fitted.families.says, failed=bool(failed.count)),
            empty=not d.count,
            extra=(
                actions(snapshot, "prefix"),
                fitted,
                VERMILLION if failed.count else prefix_colour(prefix),
            ),
        )  # fmt: skip

    def dress(self, update: Update) -> None:
        """Offer what can be chosen, colour the bars, and name the fits in the legend."""
        known, fitted, colour = update.extra
        offer(self._action, known)
        self._histogram.glyph.fill_color = colour
        self._fitted = fitted
        self._flying.visible = bool(update.columns["marks"]["text"])
        families = [fit.family for fit in fitted.families.fitted]
        for place, entry in enumerate(self._fits):
            entry.visible = place < len(families)
            if entry.visible:
                entry.label = {"value": families[place]}


def _largest(every: Mapping[str, Distribution]) -> str:
    return max(every, key=lambda name: every[name].sum, default="")


def _ages(snapshot: Snapshot, prefix: str) -> list[float]:
    return [age(a, snapshot.at) for a in snapshot.running if a.prefix == prefix]


def survival_columns(d: Distribution) -> dict[str, Any]:
    """Return the survival function as columns, for a logarithmic axis."""
    curve = survival(d)
    return {
        "x": curve.x,
        "share": np.maximum(curve.share, floor(d)),
        "text": [seconds(x) for x in curve.x.tolist()],
    }


def mark_columns(d: Distribution, ages: Sequence[float]) -> dict[str, Any]:
    """Return the marks of what has not ended as columns."""
    curve = censored(d, ages)
    return {"x": curve.x, "share": curve.share, "text": [seconds(x) for x in curve.x.tolist()]}


def _remark(prefix: str, d: Distribution, ages: Sequence[float], fit: str, *, failed: bool) -> str:
    if not prefix and not d.count and not ages:
        return "Nothing has run yet."
    running = f"{len(ages):,} in flight, the oldest for {seconds(max(ages))}" if ages else ""
    if not d.count:
        return f"{label(prefix, 60)}: none has ended yet{'; ' if running else ''}{running}."
    p50, p99 = d.quantile([0.5, 0.99]).tolist()
    parts = [
        f"{label(prefix, 60)}: {d.count:,} values"
        + (", all of failed attempts: none ended ok" if failed else ""),
        f"median {seconds(p50)}, p99 {seconds(p99)}, max {seconds(d.maximum)}",
        f"{d.zero_count:,} of them 0, which no logarithmic axis can show" if d.zero_count else "",
        running,
    ]
    return f"{'; '.join(filter(None, parts))}. {fit}".strip()
