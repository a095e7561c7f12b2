"""Where the capacity went: compute, waste by kind, idle by reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    FixedTicker,
    HBar,
    Line,
    NumeralTickFormatter,
    Range1d,
    Text,
    VArea,
)

from taskmeter.dashboard.panels.compute import instants
from taskmeter.dashboard.panels.style import INK, chart, draw, hover, time_axis, time_of_day
from taskmeter.text import duration, percentage
from taskmeter.views.figures.capacity import (
    COLOURS,
    IDLE_KINDS,
    Share,
    capacity_layers,
    shares,
)
from taskmeter.views.figures.history import stepped
from taskmeter.views.figures.palette import BLUE
from taskmeter.views.figures.view import View

#: Kinds that have a bar even when there is nothing of them.
_ALWAYS: Final = frozenset({"done", "running", "failed", "no-task"})

#: The edges between the layers, from the lowest up.
_EDGES: Final = tuple(f"e{layer}" for layer in range(len(IDLE_KINDS) + 2))

_COLUMNS: Final = ("y", "kind", "label", "share", "seconds", "text", "colour", "duration")


def share_columns(those: Sequence[Share]) -> dict[str, list[Any]]:
    """Return parts of the capacity as columns, from top to bottom."""
    shown = [one for one in those if one.seconds or one.kind in _ALWAYS]
    return {
        "y": list(range(len(shown))),
        "kind": [one.kind for one in shown],
        "label": [one.label for one in shown],
        "share": [one.share for one in shown],
        "seconds": [one.seconds for one in shown],
        "text": [f"{percentage(one.share)}   {duration(one.seconds)}" for one in shown],
        "colour": [COLOURS[one.kind] for one in shown],
        "duration": [duration(one.seconds) for one in shown],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    bars: dict[str, list[Any]]
    layers: dict[str, Any]


class CapacityPanel:
    """Where the capacity went."""

    name = "capacity"
    every = 2
    title = "Where capacity went"
    caption = (
        "All thread time since the beginning, by what became of it. Below, the last minutes in the "
        "same colours: what is not compute is idle."
    )

    def __init__(self) -> None:
        self._bars = ColumnDataSource({name: [] for name in _COLUMNS}, name="shares")
        self._kinds = ["compute", *IDLE_KINDS]
        self._source = ColumnDataSource({name: [] for name in ("at", *self._kinds, *_EDGES)})
        self._rows = Range1d(0.5, -0.5)
        self._ticker = FixedTicker(ticks=[])
        self.plots = [self._draw_bars(), self._draw_layers()]
        self.controls: list[Any] = []
        self.root = column(*self.plots, sizing_mode="stretch_both", name=self.name)

    def _draw_bars(self) -> Any:
        plot = chart(
            x_range=Range1d(0, 1.22), y_range=self._rows, min_height=150, tools="",
        )  # fmt: skip
        plot.xaxis.ticker = [0, 0.25, 0.5, 0.75, 1]
        plot.xaxis.formatter = NumeralTickFormatter(format="0 %")
        plot.yaxis.ticker = self._ticker
        plot.ygrid.grid_line_color = None
        drawn = draw(
            plot,
            self._bars,
            HBar(y="y", left=0, right="share", height=0.7, fill_color="colour", line_color=None),
        )
        draw(
            plot,
            self._bars,
            Text(x="share", y="y", text="text", x_offset=6, text_baseline="middle",
                 text_font_size="11px", text_color=INK, tags=["ink"]),
        )  # fmt: skip
        hover(
            plot,
            [drawn],
            (("", "@label"), ("share", "@share{0.00 %}"), ("thread time", "@duration")),
        )
        return plot

    def _draw_layers(self) -> Any:
        plot = chart(min_height=110, tools="")
        plot.y_range.start, plot.y_range.end = 0, 1
        plot.yaxis.formatter = NumeralTickFormatter(format="0 %")
        time_axis(plot)
        colours = [BLUE, *(COLOURS[reason] for reason in IDLE_KINDS)]
        for (low, high), colour in zip(pairwise(_EDGES), colours, strict=True):
            draw(
                plot,
                self._source,
                VArea(x="at", y1=low, y2=high, fill_color=colour, fill_alpha=0.85),
            )
        line = draw(plot, self._source, Line(x="at", y=_EDGES[-1], line_alpha=0))
        names = ["compute", *(text.removeprefix("idle: ") for text in IDLE_KINDS.values())]
        hover(
            plot,
            [line],
            [
                ("at", "@at{custom}"),
                *(
                    (name, f"@{{{kind}}}{{0.0 %}}")
                    for name, kind in zip(names, self._kinds, strict=True)
                ),
            ],
            mode="vline",
            **time_of_day("at"),
        )
        return plot

    def job(self, view: View) -> Callable[[], _Found]:
        """Return the work."""
        return partial(_find, view)

    def show(self, found: _Found) -> None:
        """Draw what that gave."""
        number = len(found.bars["y"])
        if self._ticker.ticks != found.bars["y"] or self._bars.data["kind"] != found.bars["kind"]:
            self._ticker.ticks = found.bars["y"]
            self.plots[0].yaxis[0].major_label_overrides = dict(enumerate(found.bars["label"]))
            self._rows.start, self._rows.end = number - 0.4, -0.6
        self._bars.data = found.bars
        self._source.data = found.layers


def _find(view: View) -> _Found:
    layers: dict[str, Any] = {
        kind: np.array(stepped(values)) for kind, values in capacity_layers(view.moments).items()
    }
    edge = layers[_EDGES[0]] = np.zeros(2 * len(view.moments))
    for name, kind in zip(_EDGES[1:], ("compute", *IDLE_KINDS), strict=True):
        edge = layers[name] = edge + layers[kind]
    return _Found(
        bars=share_columns(shares(view.snapshot)),
        layers={"at": instants(view.moments), **layers},
    )
