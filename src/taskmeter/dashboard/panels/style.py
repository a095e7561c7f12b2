"""How every picture looks: axes, units, legends, tooltips, light and dark."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any, Final

from bokeh.events import SelectionGeometry
from bokeh.models import (
    BoxSelectTool,
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    CustomJSTickFormatter,
    Div,
    FixedTicker,
    Glyph,
    GlyphRenderer,
    HoverTool,
    InlineStyleSheet,
    Legend,
    LegendItem,
    LogAxis,
    Model,
    Range1d,
    Select,
)
from bokeh.plotting import figure

from taskmeter.views.figures.ticks import LADDERS, STEPS

#: Text, lines of the grid; on a light page, and on a dark one.
INK: Final = "#3a3a3a"
GRID: Final = "#e3e3e3"
DARK_INK: Final = "#d6d6d6"
DARK_GRID: Final = "#3c4046"

#: Enough to look closer and to take a picture along.
_TOOLS: Final = "xpan,xwheel_zoom,reset,save"

_UNITS: Final = """
function figure(number, unit) {
  const scaled = number / unit
  const digits = scaled === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(scaled))))
  return String(Number(scaled.toFixed(Math.min(digits, 6))))
}
"""

#: Seconds in the unit that suits them.
_DURATION_TICK: Final = (
    _UNITS
    + """
const size = Math.abs(tick)
if (size === 0) return "0"
for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
  if (size >= length && size % length === 0) return figure(tick, length) + " " + unit
}
if (size < 0.9995e-3) return figure(tick, 1e-6) + " µs"
if (size < 0.9995) return figure(tick, 1e-3) + " ms"
if (size < 120) return figure(tick, 1) + " s"
if (size < 7200) return figure(tick, 60) + " min"
return figure(tick, 3600) + " h"
"""
)

_SIZE_TICK: Final = (
    _UNITS
    + """
const size = Math.abs(tick)
if (size < 999.5) return figure(tick, 1) + " B"
if (size < 999.5e3) return figure(tick, 1e3) + " kB"
if (size < 999.5e6) return figure(tick, 1e6) + " MB"
if (size < 999.5e9) return figure(tick, 1e9) + " GB"
return figure(tick, 1e12) + " TB"
"""
)

#: A share on a logarithmic axis: 1, 0.1, 1 %.
_SHARE_TICK: Final = """
const percent = tick * 100
return percent >= 1 ? percent.toFixed(0) + " %" : String(Number(percent.toPrecision(2))) + " %"
"""

#: An instant where the reader is, of seconds of Unix time; the day if it is another.
_TIME: Final = """
const date = new Date(1000 * value)
const time = date.toLocaleTimeString([], {hour12: false})
if (date.toDateString() === new Date().toDateString()) return time
return date.toLocaleDateString([], {month: "short", day: "numeric"}) + " " + time
"""

#: The same for a tick, which has no more than tells it from its neighbours.
_TIME_TICK: Final = """
const date = new Date(1000 * tick)
const step = ticks.length > 1 ? ticks[1] - ticks[0] : 1
if (step >= 600 && date.getHours() + date.getMinutes() === 0) {
  return date.toLocaleDateString([], {month: "short", day: "numeric"})
}
const format = {hour12: false, hour: "2-digit", minute: "2-digit"}
return date.toLocaleTimeString([], step < 60 ? {...format, second: "2-digit"} : format)
"""

#: Ticks whose labels have room side by side.
_ROOM: Final = """
const width = plot.properties.inner_width.is_unset ? 400 : plot.inner_width
const room = Math.max(2, Math.floor(width / 62))
"""

#: Puts the ticks of an axis of instants at round times where the reader is.
_TIME_TICKS: Final = """
const low = Math.min(range.start, range.end), high = Math.max(range.start, range.end)
const most = Math.min(6, room)
const step = steps.find((part) => (high - low) / part <= most) ?? (high - low) / most
const offset = -60 * new Date(1000 * low).getTimezoneOffset()
const found = []
for (let k = Math.ceil((low + offset) / step); k * step - offset <= high; k++) {
  found.push(k * step - offset)
}
ticker.ticks = found
"""

#: Seconds between two ticks of an axis of instants: up to a week.
_TIME_STEPS: Final = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 604_800),
)

#: {what an axis is about: gives the text of a tick}
TICKS: Final = {
    "duration": _DURATION_TICK,
    "size": _SIZE_TICK,
    "share": _SHARE_TICK,
    "time": _TIME_TICK,
}

#: Puts the ticks of an axis of durations where `taskmeter.views.figures.ticks` has them.
_DURATION_TICKS: Final = """
const most = Math.min(7, room)
const low = Math.min(range.start, range.end), high = Math.max(range.start, range.end)
const inside = (all) => all.filter((tick) => low <= tick && tick <= high)
let ticks = []
if (logarithmic) {
  ticks = ladders.map(inside).find((part) => part.length <= most) ?? []
}
if (ticks.length < 2) {
  const step = steps.find((part) => (high - low) / part <= most) ?? (high - low) / most
  ticks = []
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(k * step)
}
ticker.ticks = ticks
"""

#: Follows what the user's system prefers, now and when it changes.
_FOLLOW_THEME: Final = """
const query = window.matchMedia("(prefers-color-scheme: dark)")
const dress = () => {
  const [ink, line] = query.matches ? dark : light
  for (const plot of plots) {
    plot.title.text_color = ink
    for (const place of [plot.left, plot.right, plot.above, plot.below, plot.center]) {
      for (const part of place) {
        if (part.properties.major_label_text_color != null) {
          part.major_label_text_color = ink
        }
        if (part.properties.axis_label_text_color != null) {
          part.axis_label_text_color = ink
          part.axis_line_color = line
          part.major_tick_line_color = line
        } else if (part.properties.label_text_color != null) {
          part.label_text_color = ink
        } else if (part.properties.grid_line_color != null && part.grid_line_color != null) {
          part.grid_line_color = line
        }
      }
    }
    for (const renderer of plot.renderers) {
      const glyph = renderer.glyph
      if (glyph.tags.includes("ink")) {
        if (glyph.properties.text_color != null) glyph.text_color = ink
        else glyph.line_color = ink
      }
    }
  }
}
query.addEventListener("change", dress)
if (query.matches) dress()
"""

#: What controls and texts look like inside of Bokeh's own boxes.
CONTROLS: Final = """
:host { color: inherit; }
label { color: inherit; font-size: 11px; opacity: 0.75; }
.bk-input { font-size: 12px; padding: 2px 22px 2px 8px; height: 26px; min-height: 26px; }
@media (prefers-color-scheme: dark) {
  .bk-input, .bk-btn { background-color: #2b2f36; color: #d6d6d6; border-color: #4a4f57; }
}
"""

_NOTE: Final = ":host { color: inherit; font-size: 12px; line-height: 1.35; }"


def chart(**options: Any) -> figure:
    """Return an empty figure that fills the space it gets.

    Parameters
    ----------
    **options
        As Bokeh's ``figure`` takes them.
    """
    made = figure(
        **{
            "tools": _TOOLS,
            "toolbar_location": "above" if options.get("tools", _TOOLS) else None,
            "toolbar_inner": True,
            "sizing_mode": "stretch_both",
            "min_height": 120,
            "min_border_left": 8,
            "min_border_right": 12,
            "background_fill_alpha": 0,
            "border_fill_alpha": 0,
            "outline_line_color": None,
            **options,
        }
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.title.text_color = INK
    made.title.text_font_size = "12px"
    for axis in made.axis:
        if isinstance(axis, LogAxis):
            axis.ticker.desired_num_ticks = 4
        axis.axis_line_color = GRID
        axis.major_tick_line_color = GRID
        axis.minor_tick_line_color = None
        axis.major_label_text_color = INK
        axis.major_label_text_font_size = "11px"
        axis.axis_label_text_color = INK
        axis.axis_label_text_font_size = "11px"
        axis.axis_label_text_font_style = "normal"
    for grid in made.grid:
        grid.grid_line_color = GRID
    return made


def draw(plot: figure, source: ColumnDataSource, glyph: Glyph) -> GlyphRenderer:
    """Draw what a source has; `figure`'s own functions make four glyphs of each, which cost time.

    Parameters
    ----------
    plot
        Where.
    source
        Its rows.
    glyph
        What stands for a row.
    """
    renderer: GlyphRenderer = plot.add_glyph(source, glyph)
    return renderer


class NamedRows:
    """The range of an axis that has one named place for each row of a picture.

    Parameters
    ----------
    downwards
        The first row is at the top.
    """

    def __init__(self, *, downwards: bool = True) -> None:
        self._downwards = downwards
        self._names: list[str] = []
        self._axes: list[Any] = []
        self._ticker = FixedTicker(ticks=[])
        self.range = Range1d(-0.5, 0.5)

    def on(self, axes: Any) -> None:
        """Let axes show the names."""
        axes.ticker = self._ticker
        self._axes += axes

    def name(self, names: Sequence[str]) -> None:
        """Name the rows from the first to the last."""
        if list(names) == self._names:
            return
        self._names = list(names)
        self._ticker.ticks = list(range(len(names)))
        for axis in self._axes:
            axis.major_label_overrides = dict(enumerate(names))
        ends = (-0.6, max(len(names), 1) - 0.4)
        self.range.start, self.range.end = ends[::-1] if self._downwards else ends


def ticks(of: str) -> CustomJSTickFormatter:
    """Return what writes the ticks of an axis of ``duration``, ``size``, ``share`` or ``time``."""
    return CustomJSTickFormatter(code=TICKS[of])


def duration_axis(plot: figure) -> None:
    """Let the axis below show durations, with ticks at times that people say."""
    logarithmic = isinstance(plot.xaxis[0], LogAxis)
    _tick(plot, "duration", _DURATION_TICKS, logarithmic=logarithmic, ladders=LADDERS, steps=STEPS)


def _tick(plot: figure, of: str, code: str, **args: Any) -> None:
    """Let a script put the ticks of the axis below wherever its range is."""
    plot.xaxis.formatter = ticks(of)
    plot.xaxis.ticker = FixedTicker(ticks=[])
    args = {"plot": plot, "range": plot.x_range, "ticker": plot.xaxis[0].ticker, **args}
    update = CustomJS(args=args, code=_ROOM + code)
    for end in ("start", "end"):
        plot.x_range.js_on_change(end, update)
    plot.js_on_change("inner_width", update)


def offer(control: Select, options: Sequence[Any]) -> None:
    """Let the reader choose among these options; the first one if what is chosen is gone."""
    if list(control.options) != list(options):
        control.options = list(options)
        if options and isinstance(options[0], str) and control.value not in options:
            control.value = options[0]


def choose_time(plot: figure, choose: Callable[..., None]) -> None:
    """Let the reader choose a window by dragging along the axis of time.

    Parameters
    ----------
    plot
        Its axis below is one of time.
    choose
        Is called with ``window=(start, stop)``.
    """

    def chosen(event: SelectionGeometry) -> None:
        if event.final and event.geometry.get("type") == "rect":
            choose(window=(event.geometry["x0"], event.geometry["x1"]))

    drag = BoxSelectTool(dimensions="width", renderers=[], description="choose a time")
    plot.add_tools(drag)
    plot.toolbar.active_drag = drag
    plot.on_event(SelectionGeometry, chosen)


def time_axis(plot: figure) -> None:
    """Let the axis below show the time where the reader is, of seconds of Unix time."""
    _tick(plot, "time", _TIME_TICKS, steps=_TIME_STEPS)
    plot.xgrid.grid_line_color = None
    plot.x_range.range_padding = 0


def time_of_day(column: str) -> dict[str, Any]:
    """Return what lets a tooltip show a column of instants as `time_axis` does."""
    return {"formatters": {f"@{column}": CustomJSHover(code=_TIME)}}


def legend(
    plot: figure, items: Sequence[tuple[str, Sequence[Any]]], *, place: str = "above"
) -> Legend:
    """Add a legend outside of the axes.

    Parameters
    ----------
    plot
        Gets the legend.
    items
        ``(label, renderers)`` of each entry.
    place
        ``above``, ``right``, or a corner inside of the axes, such as ``bottom_left``.
    """
    inside = "_" in place
    made = Legend(
        items=[LegendItem(label={"value": text}, renderers=list(drawn)) for text, drawn in items],
        orientation="horizontal" if place == "above" else "vertical",
        location=place if inside else {"above": "left"}.get(place, "top"),
        border_line_alpha=0,
        background_fill_alpha=0,
        label_text_color=INK,
        label_text_font_size="11px",
        label_height=14,
        glyph_height=14,
        glyph_width=16,
        label_standoff=4,
        spacing=8 if place == "above" else 2,
        padding=2,
        margin=2,
        click_policy="hide",
    )
    plot.add_layout(made, "center" if inside else place)
    return made


def hover(
    plot: figure, renderers: Sequence[Any], tooltips: Sequence[tuple[str, str]], **options: Any
) -> HoverTool:
    """Add a tooltip; Bokeh escapes the values, which may be names that users gave."""
    tool = HoverTool(renderers=list(renderers), tooltips=list(tooltips), **options)
    plot.add_tools(tool)
    return tool


def note(text: str = "", **options: Any) -> Div:
    """Return a line of text, which is no HTML here; change it with `say`."""
    return Div(
        text=html.escape(text),
        disable_math=True,
        sizing_mode="stretch_width",
        stylesheets=[InlineStyleSheet(css=_NOTE)],
        **options,
    )


def say(note_: Div, text: str) -> None:
    """Let a `note` show another text."""
    escaped = html.escape(text)
    if note_.text != escaped:
        note_.text = escaped


def select(title: str, options: Sequence[Any], value: str, *, width: int = 130) -> Select:
    """Return a control to choose one of some texts."""
    return Select(
        title=title,
        options=list(options),
        value=value,
        width=width,
        height=44,
        margin=(0, 6, 0, 2),
        stylesheets=[InlineStyleSheet(css=CONTROLS)],
    )


def follow_theme(plots: Sequence[Model]) -> CustomJS:
    """Return the script that makes figures dark where the user's system prefers that."""
    return CustomJS(
        args={"plots": list(plots), "light": [INK, GRID], "dark": [DARK_INK, DARK_GRID]},
        code=_FOLLOW_THEME,
    )
