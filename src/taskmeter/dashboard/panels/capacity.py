"""Where the capacity went: compute, waste by kind, idle by reason."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from bokeh.models import (
    HBar,
    Line,
    NumeralTickFormatter,
    Range1d,
    Text,
    VArea,
)

from taskmeter.catalogue.words import IDLE
from taskmeter.dashboard.panels.compute import instants
from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.style import (
    INK,
    NamedRows,
    chart,
    choose_time,
    draw,
    hover,
    time_axis,
    time_of_day,
)
from taskmeter.text import duration, percentage
from taskmeter.views.figures.history import capacity_layers, stepped
from taskmeter.views.figures.palette import BLUE, CAPACITY
from taskmeter.views.figures.view import View
from taskmeter.views.tables.capacity import Share, shares

#: Kinds that have a bar even when there is nothing of them.
_ALWAYS: Final = frozenset({"done", "running", "failed", "no-task"})

#: The edges between the layers, from the lowest up.
_EDGES: Final = tuple(f"e{layer}" for layer in range(len(IDLE) + 2))

#: The layers, from the lowest up.
_KINDS: Final = ("compute", *IDLE)

_COLUMNS: Final = ("y", "kind", "label", "share", "seconds", "text", "colour", "duration")


def share_columns(parts: Sequence[Share]) -> dict[str, list[Any]]:
    """Return parts of the capacity as columns, from top to bottom."""
    shown = [part for part in parts if part.seconds or part.kind in _ALWAYS]
    return {
        "y": list(range(len(shown))),
        "kind": [part.kind for part in shown],
        "label": [part.label for part in shown],
        "share": [part.share for part in shown],
        "seconds": [part.seconds for part in shown],
        "text": [f"{percentage(part.share)}   {duration(part.seconds)}" for part in shown],
        "colour": [CAPACITY[part.kind] for part in shown],
        "duration": [duration(part.seconds) for part in shown],
    }


class CapacityPanel(Panel):
    """Where the capacity went."""

    highlights = frozenset({"prefix", "worker", "span"})
    name = "capacity"
    every = 2
    title = "Where capacity went"
    caption = (
        "All thread time since the beginning, by what became of it. Below, the course in the same "
        "colours: what is not compute is idle."
    )

    def __init__(self) -> None:
        super().__init__()
        self._bars = self.source("shares", *_COLUMNS)
        self._layers = self.source("layers", "at", *_KINDS, *_EDGES)
        self._rows = NamedRows()
        self.plots = [self._draw_bars(), self._draw_layers()]
        choose_time(self.plots[1], self.choose)
        self.lay_out(*self.plots)

    def _draw_bars(self) -> Any:
        plot = chart(
            x_range=Range1d(0, 1.22), y_range=self._rows.range, min_height=150, tools="",
        )  # fmt: skip
        self._rows.on(plot.yaxis)
        plot.xaxis.ticker = [0, 0.25, 0.5, 0.75, 1]
        plot.xaxis.formatter = NumeralTickFormatter(format="0 %")
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
        plot = chart(min_height=110)
        plot.y_range.start, plot.y_range.end = 0, 1
        plot.yaxis.formatter = NumeralTickFormatter(format="0 %")
        time_axis(plot)
        colours = [BLUE, *(CAPACITY[reason] for reason in IDLE)]
        for (low, high), colour in zip(pairwise(_EDGES), colours, strict=True):
            draw(
                plot,
                self._layers,
                VArea(x="at", y1=low, y2=high, fill_color=colour, fill_alpha=0.85),
            )
        line = draw(plot, self._layers, Line(x="at", y=_EDGES[-1], line_alpha=0))
        names = ["compute", *IDLE.values()]
        hover(
            plot,
            [line],
            [
                ("at", "@at{custom}"),
                *(
                    (name, f"@{{{kind}}}{{0.0 %}}")
                    for name, kind in zip(names, _KINDS, strict=True)
                ),
            ],
            mode="vline",
            **time_of_day("at"),
        )
        return plot

    def work(self, view: View) -> Update:
        """Return the parts of the capacity, and the layers over time."""
        layers: dict[str, Any] = {
            kind: np.array(stepped(values))
            for kind, values in capacity_layers(view.moments).items()
        }
        edge = layers[_EDGES[0]] = np.zeros(2 * len(view.moments))
        for name, kind in zip(_EDGES[1:], _KINDS, strict=True):
            edge = layers[name] = edge + layers[kind]
        return Update(
            columns={
                "shares": share_columns(shares(view.snapshot)),
                "layers": {"at": instants(view.moments), **layers},
            },
            note="" if view.snapshot.thread_seconds else "There has been no worker yet.",
            empty=not view.snapshot.thread_seconds,
        )

    def dress(self, update: Update) -> None:
        """Name the bars."""
        self._rows.name(update.columns["shares"]["label"])
