"""The distribution of one prefix: histogram, survival, fitted families, what has not ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, LegendItem, Line, Quad, Scatter, Step

from taskmeter.dashboard.panels.style import chart, draw, hover, legend, note, say, select, ticks
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE
from taskmeter.text import percentage, seconds
from taskmeter.views.figures.boxes import FAILED, RECENT, actions, age, distributions
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION
from taskmeter.views.figures.shape import (
    Families,
    bars,
    censored,
    families,
    floor,
    survival,
)
from taskmeter.views.figures.top import top
from taskmeter.views.figures.view import View

#: What stands for the prefix that took most time, whichever that is.
LARGEST: Final = "the one that took most time"

#: Prefixes to choose from.
_MOST_CHOICES: Final = 200

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    prefix: str
    choices: list[Any]
    actions: tuple[str, ...]
    fitted: _Fitted
    bars: dict[str, Any]
    survival: dict[str, Any]
    marks: dict[str, Any]
    low_marks: dict[str, Any]
    text: str


class DistributionPanel:
    """The distribution of one prefix."""

    name = "distribution"
    every = 2
    title = "Distribution of one prefix"
    caption = (
        "Left: how many attempts took how long. Right: the share that took longer, with fitted "
        "families. Red marks: attempts in flight, at their present age."
    )

    def __init__(self) -> None:
        self._prefix = select("prefix", [("", LARGEST)], "", width=215)
        self._action = select("duration of", (COMPUTE,), COMPUTE, width=165)
        self.controls = [self._prefix, self._action]
        self._fitted = _Fitted()
        self._running = True
        self._bars = ColumnDataSource({n: [] for n in ("left", "right", "count", "text", "share")})
        self._survival = ColumnDataSource({"x": [], "share": [], "text": []}, name="survival")
        self._marks = ColumnDataSource({"x": [], "share": [], "text": []})
        self._low_marks = ColumnDataSource({"x": [], "y": [], "text": []})
        self._curves = [ColumnDataSource({"x": [], "share": []}) for _ in _FITS]
        self.plots = [self._draw_histogram(), self._draw_survival()]
        self._note = note("", margin=(0, 4, 0, 4))
        self.root = column(
            row(*self.controls, sizing_mode="stretch_width"),
            row(*self.plots, sizing_mode="stretch_both"),
            self._note,
            sizing_mode="stretch_both",
            name=self.name,
        )

    def _draw_histogram(self) -> Any:
        plot = chart(x_axis_type="log", min_height=150, min_width=180)
        plot.xaxis.formatter = ticks("duration")
        plot.yaxis.axis_label = "attempts"
        plot.y_range.start = 0
        drawn = draw(
            plot,
            self._bars,
            Quad(left="left", right="right", bottom=0, top="count", fill_color=SKY, fill_alpha=0.8,
                 line_color=BLUE, line_width=0.5),
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
        plot.xaxis.formatter = ticks("duration")
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
        self._items = [("attempts", [seen]), ("in flight", [running])]
        self._fits = fits
        self._legend = legend(plot, self._items, place="bottom_left")
        return plot

    def job(self, view: View) -> Callable[[], _Found]:
        """Return the work for what is chosen now."""
        return partial(_find, view.snapshot, self._prefix.value, self._action.value, self._fitted)

    def show(self, found: _Found) -> None:
        """Draw what that gave."""
        if self._prefix.options != found.choices:
            self._prefix.options = found.choices
        if list(self._action.options) != list(found.actions):
            self._action.options = list(found.actions)
        running = bool(found.marks["text"])
        if self._fitted is not found.fitted or self._running is not running:
            self._fitted, self._running = found.fitted, running
            self._show_fits(found.fitted.families, running=running)
        self._bars.data = found.bars
        self._survival.data = found.survival
        self._marks.data = found.marks
        self._low_marks.data = found.low_marks
        say(self._note, found.text)

    def _show_fits(self, those: Families, *, running: bool) -> None:
        known = self._items if running else self._items[:1]
        items = [LegendItem(label={"value": text}, renderers=drawn) for text, drawn in known]
        for place, (source, line) in enumerate(zip(self._curves, self._fits, strict=True)):
            one = those.fitted[place] if place < len(those.fitted) else None
            source.data = {
                "x": [] if one is None else one.curve.x,
                "share": [] if one is None else one.curve.share,
            }
            if one is not None:
                text = f"{one.family} (best)" if one.best else one.family
                items.append(LegendItem(label={"value": text}, renderers=[line]))
        self._legend.items = items


def _find(snapshot: Snapshot, chosen: str, action: str, fitted: _Fitted) -> _Found:
    every = distributions(snapshot, "prefix", action)
    order = top({name: d.sum for name, d in every.items()}, _MOST_CHOICES).kept
    prefix = chosen if chosen in every else (order[0] if order else "")
    known = actions(snapshot, "prefix")
    d = every.get(prefix, Distribution())
    ages = _ages(snapshot, prefix) if action in {COMPUTE, RECENT, FAILED} else []
    fitted = fitted.of(prefix, action, d)
    # by name, so that the list stands still while amounts change
    listed = sorted({*order, chosen} - {""})
    marks = ages[:_MOST_MARKS]
    return _Found(
        prefix=prefix,
        choices=[("", LARGEST), *((name, label(name, 40)) for name in listed)],
        actions=known,
        fitted=fitted,
        bars=bar_columns(d),
        survival=survival_columns(d),
        marks=mark_columns(d, marks),
        low_marks={"x": marks, "y": [0.0] * len(marks), "text": [seconds(a) for a in marks]},
        text=_remark(prefix, d, len(ages), fitted.families.because),
    )


def _ages(snapshot: Snapshot, prefix: str) -> list[float]:
    return [age(a, snapshot.at) for a in snapshot.running if a.prefix == prefix]


def bar_columns(d: Distribution) -> dict[str, Any]:
    """Return the histogram as columns."""
    found = bars(d)
    total = max(1, d.count)
    return {
        "left": found.left,
        "right": found.right,
        "count": found.counts,
        "text": [
            f"{seconds(a)} - {seconds(b)}"
            for a, b in zip(found.left.tolist(), found.right.tolist(), strict=True)
        ],
        "share": [percentage(count / total) for count in found.counts.tolist()],
    }


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


def _remark(prefix: str, d: Distribution, running: int, because: str) -> str:
    if not prefix:
        return "Nothing has run yet."
    parts = [f"{label(prefix, 60)}: {d.count:,} values"]
    if d.count:
        p50, p99 = d.quantile([0.5, 0.99]).tolist()
        parts.append(f"median {seconds(p50)}, p99 {seconds(p99)}, max {seconds(d.maximum)}")
    if d.zero_count:
        parts.append(f"{d.zero_count:,} of them 0, which no logarithmic axis can show")
    if running:
        parts.append(f"{running:,} in flight")
    return "; ".join(parts) + (f". Fit: {because}." if because else ".")
