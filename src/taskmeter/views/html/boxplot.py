"""Boxes and whiskers: how long the tasks of each prefix take."""

from __future__ import annotations

import math
from collections.abc import Iterable

from markupsafe import Markup

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration, short_name, terminal_safe
from taskmeter.views.figures.boxes import BoxRow, boxes, wants_log
from taskmeter.views.html.markup import element, group, picture, text
from taskmeter.views.html.scale import Scale, time_scale, time_ticks

_WIDTH = 1120
_LEFT, _RIGHT = 230, 940
_PITCH, _TOP, _BOTTOM = 28, 26, 34
_HALF = 7


def boxplot(snapshot: Snapshot) -> Markup:
    """Draw a box for each prefix that cost most, and one for the rest; nothing if none is known.

    The box is from p25 to p75 with the median in it; the whiskers end at p5 and p95; a diamond is
    the mean, the line beside it one standard deviation; circles are outliers and the longest;
    triangles are attempts in flight, at their present age.
    """
    shown = boxes(snapshot)
    if not shown:
        return Markup("")
    scale = time_scale(_values(shown), _LEFT, _RIGHT, logarithmic=wants_log(shown))
    height = _TOP + _PITCH * len(shown) + _BOTTOM
    parts = [_grid(scale, height), _heads()]
    for place, row in enumerate(shown):
        parts.append(_row(row, scale, _TOP + _PITCH * (place + 0.5)))
    return picture(_WIDTH, height, "Durations of tasks by prefix", *parts, class_="boxes")


def _values(shown: Iterable[BoxRow]) -> Iterable[float]:
    for row in shown:
        yield from (row.spread.p5, row.spread.p95, row.maximum, row.spread.mean)
        # what runs since a moment ago would stretch the axis for nothing
        yield from (value for value in row.ages if value > 1e-3)


def _grid(scale: Scale, height: float) -> Markup:
    bottom = height - _BOTTOM + 4
    lines = [
        element("line", x1=x, x2=x, y1=_TOP, y2=bottom)
        for x in (scale.place(value) for value, _ in time_ticks(scale))
    ]
    labels = [
        text(label, scale.place(value), bottom + 16, anchor="middle")
        for value, label in time_ticks(scale)
    ]
    return group(group(*lines, class_="grid"), group(*labels, class_="axis"))


def _heads() -> Markup:
    return group(
        text("task prefix", _LEFT - 12, 14, anchor="end"),
        text("tasks", _RIGHT + 80, 14, anchor="end"),
        text("median", _WIDTH - 4, 14, anchor="end"),
        class_="axis",
    )


def _row(row: BoxRow, scale: Scale, middle: float) -> Markup:
    spread = row.spread
    name = terminal_safe(row.name[:300]) or "''"
    words = [element("title", _says(name, row))]
    words.append(
        text(short_name(row.name, 30), _LEFT - 12, middle + 4, class_="name", anchor="end")
    )
    number = f"{spread.count:,}{' failed' if row.failed else ''}"
    if not spread.count:
        number = f"{row.running:,} running"
    words.append(text(number, _RIGHT + 80, middle + 4, class_="figures", anchor="end"))
    if spread.count:
        words.append(
            text(duration(spread.p50), _WIDTH - 4, middle + 4, class_="figures", anchor="end")
        )
        words.append(_box(row, scale, middle))
    words += [_mark(scale.place(value), middle) for value in row.ages]
    hover = element("rect", x=0, y=middle - _PITCH / 2, width=_WIDTH, height=_PITCH, class_="hover")
    return group(hover, *words, class_="row failed" if row.failed else "row")


def _box(row: BoxRow, scale: Scale, middle: float) -> Markup:
    spread = row.spread
    p5, p25, p50, p75, p95, mean, most = map(
        scale.place,
        (spread.p5, spread.p25, spread.p50, spread.p75, spread.p95, spread.mean, row.maximum),
    )
    whiskers = element(
        "path",
        d=f"M{p5:.1f} {middle - 4}v8M{p95:.1f} {middle - 4}v8"
        f"M{p5:.1f} {middle}H{p25:.1f}M{p75:.1f} {middle}H{p95:.1f}",
        class_="whisker",
    )
    box = element(
        "rect",
        x=p25,
        y=middle - _HALF,
        width=max(1.0, p75 - p25),
        height=2 * _HALF,
        class_="box",
        style=None if row.failed else f"fill: {row.colour}",
    )
    median = element("path", d=f"M{p50:.1f} {middle - _HALF}v{2 * _HALF}", class_="median")
    outliers = [
        element("circle", cx=scale.place(value), cy=middle, r=2.4, class_="outlier")
        for value, _ in row.outliers
    ]
    longest = element("circle", cx=most, cy=middle, r=3.2, class_="longest")
    parts = [*outliers, longest, whiskers, box, median]
    if math.isfinite(spread.std):
        low, high = scale.place(spread.mean - spread.std), scale.place(spread.mean + spread.std)
        y = middle + _HALF + 3
        parts.append(element("path", d=f"M{low:.1f} {y}H{high:.1f}", class_="std"))
    y = middle + _HALF + 3
    diamond = f"M{mean - 4:.1f} {y}l4 -4l4 4l-4 4z"
    return group(*parts, element("path", d=diamond, class_="mean"))


def _mark(x: float, middle: float) -> Markup:
    return element("path", d=f"M{x:.1f} {middle - 3}l4.5 -8h-9z", class_="running")


def _says(name: str, row: BoxRow) -> str:
    spread = row.spread
    ended = "failed" if row.failed else "ended ok"
    parts = [name, f"{spread.count:,} {ended}, {row.running:,} running"]
    if spread.count:
        parts += [
            f"{title} {duration(value)}"
            for title, value in (
                ("mean", spread.mean),
                ("std", spread.std),
                ("p5", spread.p5),
                ("p25", spread.p25),
                ("p50", spread.p50),
                ("p75", spread.p75),
                ("p95", spread.p95),
                ("p99", spread.p99),
                ("max", row.maximum),
            )
        ]
    return "\n".join(parts)
