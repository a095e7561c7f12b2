"""Compute over time: threads that each prefix keeps busy, under the capacity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from bokeh.models import Line, NumeralTickFormatter, VArea

from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.style import (
    chart,
    choose_time,
    draw,
    hover,
    legend,
    time_axis,
    time_of_day,
)
from taskmeter.distributions.grid import Floats
from taskmeter.history.moment import Moment
from taskmeter.views.figures.history import compute_layers, stepped
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import BLUE, GREY, SKY, prefix_colour
from taskmeter.views.figures.view import View

#: Prefixes with a layer of their own.
MOST_LAYERS: Final = 6

_SLOTS: Final = MOST_LAYERS + 2
#: The rate of each layer, and the edges between the layers, from the lowest up.
_RATES: Final = tuple(f"s{slot}" for slot in range(_SLOTS))
_EDGES: Final = tuple(f"e{slot}" for slot in range(_SLOTS + 1))
_BAND: Final = ("p5", "p25", "p50", "p75", "p95")


def instants(moments: Sequence[Moment]) -> Floats:
    """Return the beginning and the end of each moment, in seconds of Unix time."""
    return np.array([end for moment in moments for end in (moment.start, moment.stop)])


class ComputePanel(Panel):
    """Compute over time."""

    name = "compute"
    every = 1
    title = "Compute over time"
    caption = (
        "Threads kept busy by each prefix, tasks in flight included; the line is the capacity. "
        "Below: how busy the workers are, from 0 to 100 %."
    )

    def __init__(self) -> None:
        super().__init__()
        self._source = self.source("rates", "at", "capacity", "total", *_RATES, *_EDGES)
        self._band = self.source("band", "at", *_BAND)
        self._shown: tuple[str, ...] | None = None
        plot = self._plot = chart(min_height=150)
        plot.yaxis.axis_label = "threads"
        plot.y_range.start = 0
        time_axis(plot)
        self._areas = [
            draw(plot, self._source, VArea(x="at", y1=low, y2=high, fill_alpha=0.85))
            for low, high in pairwise(_EDGES)
        ]
        self._capacity = draw(
            plot,
            self._source,
            Line(x="at", y="capacity", line_color=GREY, line_width=2, line_dash="dashed"),
        )
        self._hover = hover(plot, [self._capacity], (), mode="vline", **time_of_day("at"))
        entries = legend(
            plot,
            [("capacity", [self._capacity]), *(("", [area]) for area in reversed(self._areas))],
            place="right",
        )
        self._entries = entries.items[:0:-1]
        self.plots = [plot, self._draw_band()]
        choose_time(plot, self.choose)
        self.lay_out(*self.plots)

    def _draw_band(self) -> Any:
        plot = chart(
            x_range=self._plot.x_range, min_height=90, height=110, sizing_mode="stretch_width",
            tools="",
        )  # fmt: skip
        plot.y_range.start, plot.y_range.end = 0, 1.02
        plot.yaxis.axis_label = "workers busy"
        plot.yaxis.formatter = NumeralTickFormatter(format="0 %")
        plot.yaxis.ticker = [0, 0.5, 1]
        time_axis(plot)
        outer, inner = (
            draw(plot, self._band, VArea(x="at", y1=y1, y2=y2, fill_color=SKY, fill_alpha=alpha))
            for y1, y2, alpha in (("p5", "p95", 0.3), ("p25", "p75", 0.6))
        )
        middle = draw(plot, self._band, Line(x="at", y="p50", line_color=BLUE, line_width=2))
        legend(plot, [("p5 - p95", [outer]), ("p25 - p75", [inner]), ("median", [middle])],
               place="right")  # fmt: skip
        tips = [(f"{name} of workers", f"@{name}{{0.0 %}}") for name in _BAND]
        hover(plot, [middle], tips, mode="vline")
        return plot

    def work(self, view: View) -> Update:
        """Return the rate of each layer and the edges between them, and the band of workers."""
        moments = view.moments
        layers = compute_layers(moments, MOST_LAYERS)
        nothing = np.zeros(2 * len(moments))
        columns: dict[str, Any] = {
            "at": instants(moments),
            "capacity": np.array(stepped(layers.capacity)),
        }
        total = columns["e0"] = nothing
        for slot, (rates, edge) in enumerate(zip(_RATES, _EDGES[1:], strict=True)):
            if slot < len(layers.names):
                columns[rates] = np.array(stepped(layers.rates[layers.names[slot]]))
            else:
                columns[rates] = nothing
            total = columns[edge] = total + columns[rates]
        columns["total"] = total
        told = [moment for moment in moments if moment.band]
        band: dict[str, Any] = {"at": instants(told)}
        for place, name in enumerate(_BAND):
            band[name] = np.array(stepped([moment.band[place] for moment in told]))
        return Update(
            columns={"rates": columns, "band": band},
            note=_now(moments),
            empty=not moments,
            extra=layers.names,
        )

    def dress(self, update: Update) -> None:
        """Give each layer its colour, its entry in the legend and its line in the tooltip."""
        names: tuple[str, ...] = update.extra
        has_band = len(update.columns["band"]["at"]) > 0
        if self.plots[1].visible is not has_band:
            self.plots[1].visible = has_band
        if names == self._shown:
            return
        self._shown = names
        for slot, (area, entry) in enumerate(zip(self._areas, self._entries, strict=True)):
            area.visible = entry.visible = slot < len(names)
            if slot < len(names):
                area.glyph.fill_color = prefix_colour(names[slot])
                entry.label = {"value": label(names[slot], 20)}
        self._hover.tooltips = [
            ("at", "@at{custom}"),
            ("capacity", "@capacity{0.00}"),
            ("busy", "@total{0.00}"),
            *(
                (label(name), f"@s{slot}{{0.00}}")
                for slot, name in reversed(list(enumerate(names)))
            ),
        ]


def _now(moments: Sequence[Moment]) -> str:
    if not moments:
        return "The first seconds are being collected."
    last = moments[-1]
    busy, capacity = last.busy_seconds / last.seconds, last.thread_seconds / last.seconds
    share = f" ({busy / capacity:.1%})" if capacity else ""
    return f"Now {busy:.2f} of {capacity:.2f} threads are busy{share}."
