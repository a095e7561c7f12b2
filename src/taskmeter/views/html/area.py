"""Compute over time: the threads that each prefix kept busy, under the capacity."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from markupsafe import Markup

from taskmeter.history.moment import Moment, thinned
from taskmeter.text import short_name
from taskmeter.views.figures.history import compute_layers
from taskmeter.views.figures.palette import prefix_colour
from taskmeter.views.figures.top import REST
from taskmeter.views.html.markup import element, group, picture, text
from taskmeter.views.html.scale import Scale, ticks, time_ticks

#: Prefixes that have a colour of their own.
TOP = 6

#: Equal steps there are room for.
MOST_STEPS = 200

_WIDTH, _HEIGHT = 1120, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 1108, 20, 284


def area(moments: Sequence[Moment]) -> Markup:
    """Draw the course of compute; nothing for fewer than two moments."""
    if len(moments) < 2:
        return Markup("")
    begin, end = moments[0].start, moments[-1].stop
    moments = _drawable(moments)
    layers = compute_layers(moments, TOP)
    tops = list(accumulate(layers.rates.values(), _on_top))
    high = max([*layers.capacity, *(tops[-1] if tops else ()), 1e-9]) * 1.08
    across = Scale(low=0.0, high=end - begin, start=_LEFT, stop=_RIGHT)
    up = Scale(low=0.0, high=high, start=_BOTTOM, stop=_TOP)
    edges = [across.place(m.start - begin) for m in moments] + [_RIGHT]
    drawn = [_axes(across, up)]
    below = [up.place(0.0)] * len(moments)
    for (name, colour), top in zip(legend(moments), tops, strict=True):
        above = [up.place(rate) for rate in top]
        title = element("title", name)
        drawn.append(
            element("path", title, d=_outline(edges, below, above), class_="area", fill=colour)
        )
        below = above
    line = _steps(edges, [up.place(threads) for threads in layers.capacity])
    drawn.append(element("path", element("title", "capacity"), d=f"M{line}", class_="limit"))
    return picture(_WIDTH, _HEIGHT, "Compute over time", *drawn)


def legend(moments: Sequence[Moment]) -> list[tuple[str, str]]:
    """Return ``(name, colour)`` of the layers from the bottom up."""
    return [
        (name if name == REST else short_name(name), prefix_colour(name))
        for name in compute_layers(_drawable(moments), TOP).names
    ]


def _drawable(moments: Sequence[Moment]) -> Sequence[Moment]:
    """Return moments that are no finer than the drawing."""
    length = moments[-1].stop - moments[0].start if moments else 0.0
    return thinned(moments, lambda _: length / MOST_STEPS)


def _on_top(below: Sequence[float], rates: Sequence[float]) -> Sequence[float]:
    return [under + rate for under, rate in zip(below, rates, strict=True)]


def _steps(edges: Sequence[float], heights: Sequence[float]) -> str:
    points = (
        f"{x0:.1f} {y:.1f}L{x1:.1f} {y:.1f}"
        for x0, x1, y in zip(edges, edges[1:], heights, strict=False)
    )
    return "L".join(points)


def _outline(edges: Sequence[float], below: Sequence[float], above: Sequence[float]) -> str:
    back = (
        f"{x1:.1f} {y:.1f}L{x0:.1f} {y:.1f}"
        for x0, x1, y in zip(edges[-2::-1], edges[:0:-1], reversed(below), strict=True)
    )
    return f"M{_steps(edges, above)}L{'L'.join(back)}Z"


def _axes(across: Scale, up: Scale) -> Markup:
    grid, words = [], [text("threads", _LEFT, _TOP - 5)]
    for value, label in ticks(up):
        y = up.place(value)
        grid.append(element("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y))
        words.append(text(label, _LEFT - 8, y + 4, anchor="end"))
    for value, label in time_ticks(across):
        x = across.place(value)
        grid.append(element("line", x1=x, x2=x, y1=_BOTTOM, y2=_BOTTOM + 5))
        words.append(text(label, x, _BOTTOM + 20, anchor="middle"))
    return group(group(*grid, class_="grid"), group(*words, class_="axis"))
