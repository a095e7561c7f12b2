"""Transfers: how large, how fast, and between whom."""

from __future__ import annotations

from typing import Any, Final

from bokeh.layouts import column, row
from bokeh.models import (
    ColorBar,
    LogColorMapper,
    Quad,
    Rect,
)
from bokeh.palettes import Cividis256

from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.style import INK, NamedRows, chart, draw, hover, ticks
from taskmeter.snapshots.stats import Transfers
from taskmeter.text import bandwidth, duration, size
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import GREEN, SKY
from taskmeter.views.figures.shape import BAR_COLUMNS, bar_columns
from taskmeter.views.figures.traffic import Matrix, matrix
from taskmeter.views.figures.view import View

_CELLS: Final = ("x", "y", "source", "destination", "count", "bytes", "size", "speed", "time")


def cell_columns(traffic: Matrix) -> dict[str, list[Any]]:
    """Return who sends to whom as columns: a sender has a row, a receiver a column."""
    place = {name: number for number, name in enumerate(traffic.workers)}
    return {
        "x": [place[cell.destination] for cell in traffic.cells],
        "y": [place[cell.source] for cell in traffic.cells],
        "source": [label(cell.source) for cell in traffic.cells],
        "destination": [label(cell.destination) for cell in traffic.cells],
        "count": [cell.count for cell in traffic.cells],
        "bytes": [max(cell.bytes, 1.0) for cell in traffic.cells],
        "size": [size(cell.bytes) for cell in traffic.cells],
        "speed": [bandwidth(cell.bandwidth) for cell in traffic.cells],
        "time": [duration(cell.seconds) for cell in traffic.cells],
    }


class TransfersPanel(Panel):
    """Transfers."""

    name = "transfers"
    every = 3
    title = "Transfers between workers"
    caption = (
        "How large and how fast the transfers were, one value each; right, the bytes from each "
        "worker to each other."
    )

    def __init__(self) -> None:
        super().__init__()
        self._across, self._down = NamedRows(downwards=False), NamedRows()
        sizes = self._draw_bars("bytes", "size of a transfer", SKY)
        speeds = self._draw_bars("bandwidth", "bandwidth, a second", GREEN)
        pairs = self._draw_matrix()
        self.plots = [sizes, speeds, pairs]
        bars = column(sizes, speeds, sizing_mode="stretch_both")
        self.lay_out(row(bars, pairs, sizing_mode="stretch_both"))

    def _draw_bars(self, name: str, title: str, colour: str) -> Any:
        plot = chart(x_axis_type="log", min_height=110, min_width=160, tools="")
        plot.xaxis.formatter = ticks("size")
        plot.xaxis.axis_label = title
        plot.y_range.start = 0
        drawn = draw(
            plot,
            self.source(name, *BAR_COLUMNS),
            Quad(left="left", right="right", bottom=0, top="count", fill_color=colour,
                 line_color=None, fill_alpha=0.85),
        )  # fmt: skip
        hover(plot, [drawn], (("", "@text"), ("transfers", "@count{0,0}"), ("share", "@share")))
        return plot

    def _draw_matrix(self) -> Any:
        plot = chart(
            x_range=self._across.range, y_range=self._down.range, x_axis_location="above", tools="",
            min_height=160, min_width=200,
        )  # fmt: skip
        self._across.on(plot.xaxis)
        self._down.on(plot.yaxis)
        plot.grid.grid_line_color = None
        plot.xaxis.axis_label = "to"
        plot.yaxis.axis_label = "from"
        plot.xaxis.major_label_orientation = 0.6
        self._colours = LogColorMapper(palette=list(reversed(Cividis256)), low=1, high=10)
        drawn = draw(
            plot,
            self.source("pairs", *_CELLS),
            Rect(x="x", y="y", width=0.94, height=0.94, line_color=None,
                 fill_color={"field": "bytes", "transform": self._colours}),
        )  # fmt: skip
        plot.add_layout(
            ColorBar(
                color_mapper=self._colours, formatter=ticks("size"), width=8, padding=2,
                background_fill_alpha=0, major_label_text_color=INK,
                major_label_text_font_size="10px", major_tick_line_color=None,
            ),
            "right",
        )  # fmt: skip
        hover(
            plot,
            [drawn],
            (
                ("from", "@source"),
                ("to", "@destination"),
                ("transfers", "@count{0,0}"),
                ("bytes", "@size"),
                ("time", "@time"),
                ("median bandwidth", "@speed"),
            ),
        )
        return plot

    def work(self, view: View) -> Update:
        """Return the histograms and the matrix."""
        transfers = view.snapshot.transfers
        traffic = matrix(view.snapshot)
        return Update(
            columns={
                "bytes": bar_columns(transfers.bytes, size),
                "bandwidth": bar_columns(transfers.bandwidth, bandwidth),
                "pairs": cell_columns(traffic),
            },
            note=_remark(transfers),
            empty=not transfers.seconds.count,
            extra=traffic.workers,
        )

    def dress(self, update: Update) -> None:
        """Name the workers, and let the colours span the amounts."""
        names = [label(name, 14) for name in update.extra]
        self._across.name(names)
        self._down.name(names)
        amounts = update.columns["pairs"]["bytes"]
        low, high = min(amounts, default=1.0), max(amounts, default=10.0)
        self._colours.low, self._colours.high = low, max(high, low * 10)


def _remark(transfers: Transfers) -> str:
    number = transfers.seconds.count
    if not number:
        return "Nothing has been sent from one worker to another yet."
    return (
        f"{number:,} transfer{'' if number == 1 else 's'} of {size(transfers.bytes.sum)} in "
        f"{duration(transfers.seconds.sum)}; median {size(transfers.bytes.quantile(0.5))} at "
        f"{bandwidth(transfers.bandwidth.quantile(0.5))}."
    )
