"""Transfers: how large, how fast, and between whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bokeh.layouts import column, row
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    FixedTicker,
    LogColorMapper,
    Quad,
    Range1d,
    Rect,
)
from bokeh.palettes import Cividis256

from taskmeter.dashboard.panels.style import INK, chart, draw, hover, note, say, ticks
from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.stats import Transfers
from taskmeter.text import bandwidth, duration, percentage, size
from taskmeter.views.figures.label import label
from taskmeter.views.figures.palette import GREEN, SKY
from taskmeter.views.figures.shape import bars
from taskmeter.views.figures.traffic import Matrix, matrix
from taskmeter.views.figures.view import View

_CELLS: Final = ("x", "y", "source", "destination", "count", "bytes", "size", "speed", "time")
_BARS: Final = ("left", "right", "count", "text", "share")


def bar_columns(d: Distribution, text: Callable[[float], str]) -> dict[str, Any]:
    """Return a histogram as columns."""
    found = bars(d)
    total = max(1, d.count)
    return {
        "left": found.left,
        "right": found.right,
        "count": found.counts,
        "text": [
            f"{text(a)} - {text(b)}"
            for a, b in zip(found.left.tolist(), found.right.tolist(), strict=True)
        ],
        "share": [percentage(count / total) for count in found.counts.tolist()],
    }


def cell_columns(found: Matrix) -> dict[str, list[Any]]:
    """Return who sends to whom as columns: a sender has a row, a receiver a column."""
    place = {name: number for number, name in enumerate(found.workers)}
    return {
        "x": [place[cell.destination] for cell in found.cells],
        "y": [place[cell.source] for cell in found.cells],
        "source": [label(cell.source) for cell in found.cells],
        "destination": [label(cell.destination) for cell in found.cells],
        "count": [cell.count for cell in found.cells],
        "bytes": [max(cell.bytes, 1.0) for cell in found.cells],
        "size": [size(cell.bytes) for cell in found.cells],
        "speed": [bandwidth(cell.bandwidth) for cell in found.cells],
        "time": [duration(cell.seconds) for cell in found.cells],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    bytes: dict[str, Any]
    bandwidth: dict[str, Any]
    matrix: Matrix
    cells: dict[str, list[Any]]
    text: str


class TransfersPanel:
    """Transfers."""

    name = "transfers"
    every = 3
    title = "Transfers between workers"
    caption = (
        "How large and how fast the transfers were, one value each; right, the bytes from each "
        "worker to each other."
    )

    def __init__(self) -> None:
        self._bytes = ColumnDataSource({name: [] for name in _BARS})
        self._bandwidth = ColumnDataSource({name: [] for name in _BARS})
        self._cells = ColumnDataSource({name: [] for name in _CELLS}, name="pairs")
        self._workers: tuple[str, ...] | None = None
        self._across = Range1d(-0.5, 0.5)
        self._down = Range1d(0.5, -0.5)
        self._ticker = FixedTicker(ticks=[])
        sizes = self._draw_bars(self._bytes, "size of a transfer", SKY)
        speeds = self._draw_bars(self._bandwidth, "bandwidth, a second", GREEN)
        pairs = self._draw_matrix()
        self.plots = [sizes, speeds, pairs]
        self._note = note("", margin=(0, 4, 0, 4))
        self.controls: list[Any] = []
        self.root = column(
            row(
                column(sizes, speeds, sizing_mode="stretch_both"), pairs, sizing_mode="stretch_both"
            ),
            self._note,
            sizing_mode="stretch_both",
            name=self.name,
        )

    def _draw_bars(self, source: ColumnDataSource, what: str, colour: str) -> Any:
        plot = chart(x_axis_type="log", min_height=110, min_width=160, tools="")
        plot.xaxis.formatter = ticks("size")
        plot.xaxis.axis_label = what
        plot.y_range.start = 0
        drawn = draw(
            plot,
            source,
            Quad(left="left", right="right", bottom=0, top="count", fill_color=colour,
                 line_color=None, fill_alpha=0.85),
        )  # fmt: skip
        hover(plot, [drawn], (("", "@text"), ("transfers", "@count{0,0}"), ("share", "@share")))
        return plot

    def _draw_matrix(self) -> Any:
        plot = chart(
            x_range=self._across, y_range=self._down, x_axis_location="above", tools="",
            min_height=160, min_width=200,
        )  # fmt: skip
        for axis in plot.axis:
            axis.ticker = self._ticker
        plot.grid.grid_line_color = None
        plot.xaxis.axis_label = "to"
        plot.yaxis.axis_label = "from"
        plot.xaxis.major_label_orientation = 0.6
        self._colours = LogColorMapper(palette=list(reversed(Cividis256)), low=1, high=10)
        drawn = draw(
            plot,
            self._cells,
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

    def job(self, view: View) -> Callable[[], _Found]:
        """Return the work."""
        return partial(_find, view)

    def show(self, found: _Found) -> None:
        """Draw what that gave."""
        self._bytes.data = found.bytes
        self._bandwidth.data = found.bandwidth
        if found.matrix.workers != self._workers:
            self._workers = found.matrix.workers
            self._name_workers(found.matrix.workers)
        amounts = found.cells["bytes"]
        low, high = min(amounts, default=1.0), max(amounts, default=10.0)
        self._colours.low, self._colours.high = low, max(high, low * 10)
        self._cells.data = found.cells
        say(self._note, found.text)

    def _name_workers(self, names: Sequence[str]) -> None:
        self._ticker.ticks = list(range(len(names)))
        overrides = {number: label(name, 14) for number, name in enumerate(names)}
        for axis in self.plots[2].axis:
            axis.major_label_overrides = overrides
        end = max(len(names), 1) - 0.5
        self._across.end, self._down.start = end, end


def _find(view: View) -> _Found:
    transfers = view.snapshot.transfers
    found = matrix(view.snapshot)
    return _Found(
        bytes=bar_columns(transfers.bytes, size),
        bandwidth=bar_columns(transfers.bandwidth, bandwidth),
        matrix=found,
        cells=cell_columns(found),
        text=_remark(transfers),
    )


def _remark(transfers: Transfers) -> str:
    number = transfers.seconds.count
    if not number:
        return "Nothing has been sent from one worker to another yet."
    return (
        f"{number:,} transfers of {size(transfers.bytes.sum)} in {duration(transfers.seconds.sum)}"
        f"; median {size(transfers.bytes.quantile(0.5))} at "
        f"{bandwidth(transfers.bandwidth.quantile(0.5))}."
    )
