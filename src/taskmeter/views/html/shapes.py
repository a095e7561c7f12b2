"""Whole distributions: histogram above survival function, on one axis of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE
from taskmeter.text import duration, percentage, short_name
from taskmeter.views.figures.boxes import FAILED, distributions
from taskmeter.views.figures.palette import prefix_colour
from taskmeter.views.figures.shape import (
    Curve,
    Families,
    bars,
    censored,
    families,
    floor,
    survival,
)
from taskmeter.views.figures.top import top
from taskmeter.views.html.markup import element, group, picture, text
from taskmeter.views.html.scale import Scale, time_scale, time_ticks
from taskmeter.views.tables.running import age

#: Prefixes whose distribution is drawn.
TOP = 6

#: With fewer values there is no shape to see.
LEAST_COUNT = 10

_WIDTH, _HEIGHT = 372, 262
_LEFT, _RIGHT = 44, 362
_BARS_TOP, _BARS_BOTTOM = 24, 100
_TOP, _BOTTOM = 128, 232


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One distribution, drawn.

    Parameters
    ----------
    name
        Whose it is, in printable form.
    figure
        The drawing.
    says
        A sentence on the family that describes it, or on why there is none.
    """

    name: str
    figure: Markup
    says: str


def shapes(snapshot: Snapshot) -> tuple[Shape, ...]:
    """Draw the distributions of the prefixes that cost most and ended often enough."""
    ok = distributions(snapshot, "prefix", COMPUTE)
    failed = distributions(snapshot, "prefix", FAILED)
    every = {name: d if d.count else failed[name] for name, d in ok.items()}
    sums = {name: d.sum for name, d in every.items() if d.count >= LEAST_COUNT}
    # one more than asked for is kept where that leaves nothing over
    names = top(sums, TOP).kept[:TOP]
    return tuple(_shape(name, every[name], snapshot, failed=not ok[name].count) for name in names)


def _shape(name: str, d: Distribution, snapshot: Snapshot, *, failed: bool) -> Shape:
    ages = [age(a, snapshot.at) for a in snapshot.running if a.prefix == name]
    fits = families(d)
    return Shape(
        name=short_name(name),
        figure=_figure(d, ages, fits, prefix_colour(name)),
        says=f"{'Every attempt that ended has failed. ' if failed else ''}{fits.says}",
    )


def _figure(d: Distribution, ages: Sequence[float], fits: Families, colour: str) -> Markup:
    # attempts in flight may be older than all that ended
    values = [d.minimum, d.maximum, *(a for a in ages if a >= d.minimum)]
    across = time_scale(values, _LEFT, _RIGHT, logarithmic=True)
    up = Scale(low=floor(d), high=1.0, start=_BOTTOM, stop=_TOP, logarithmic=True)
    parts = [_axes(across, up), _bars(d, across, colour), _marks(d, across)]
    parts += [_line(fit.curve, across, up, "fit") for fit in fits.fitted[:1] if fit.curve.x.size]
    parts.append(_stairs(survival(d), across, up))
    parts.append(_open(censored(d, [a for a in ages if a >= d.minimum]), across, up))
    return picture(_WIDTH, _HEIGHT, "Histogram and survival function", *parts)


def _axes(across: Scale, up: Scale) -> Markup:
    grid, words = [], [text("share that lasts longer", _LEFT, _TOP - 8)]
    for value, label in time_ticks(across, 6):
        x = across.place(value)
        grid.append(element("line", x1=x, x2=x, y1=_BARS_TOP, y2=_BOTTOM))
        words.append(text(label, x, _BOTTOM + 18, anchor="middle"))
    decades = range(math.ceil(math.log10(up.low)), 1)
    for exponent in decades[:: -max(1, math.ceil(len(decades) / 4))]:
        y = up.place(10.0**exponent)
        grid.append(element("line", x1=_LEFT, x2=_RIGHT, y1=y, y2=y))
        label = percentage(10.0**exponent) if exponent > -4 else f"1e{exponent}"
        words.append(text(label, _LEFT - 5, y + 4, anchor="end"))
    base = element("line", x1=_LEFT, x2=_RIGHT, y1=_BARS_BOTTOM, y2=_BARS_BOTTOM)
    return group(group(*grid, base, class_="grid"), group(*words, class_="axis"))


def _bars(d: Distribution, across: Scale, colour: str) -> Markup:
    histogram = bars(d)
    if not histogram.counts.size:
        return Markup("")
    most = int(histogram.counts.max())
    drawn = []
    for low, high, count in zip(histogram.left, histogram.right, histogram.counts, strict=True):
        if count:
            x0, x1 = across.place(float(low)), across.place(float(high))
            height = (_BARS_BOTTOM - _BARS_TOP - 8) * int(count) / most
            drawn.append(
                element(
                    "rect",
                    element(
                        "title",
                        f"{duration(low)} to {duration(high)}: {int(count):,} of {d.count:,}",
                    ),
                    x=x0,
                    y=_BARS_BOTTOM - height,
                    width=max(0.8, x1 - x0 - 0.6),
                    height=height,
                )
            )
    return group(*drawn, class_="bars", fill=colour)


def _marks(d: Distribution, across: Scale) -> Markup:
    drawn, taken = [], -math.inf
    for q, value in zip((0.5, 0.95, 0.99), d.quantile([0.5, 0.95, 0.99]).tolist(), strict=True):
        x = across.place(value)
        title = f"p{q * 100:g} {duration(value)}"
        drawn.append(
            element("line", element("title", title), x1=x, x2=x, y1=_BARS_TOP - 6, y2=_BOTTOM)
        )
        # a label never stands on the one before it
        if x - taken > 28:
            drawn.append(text(f"p{q * 100:g}", x, _BARS_TOP - 10, anchor="middle"))
            taken = x
    return group(*drawn, class_="quantiles")


def _points(curve: Curve, across: Scale, up: Scale) -> list[tuple[float, float]]:
    return [
        (across.place(float(x)), up.place(float(share)))
        for x, share in zip(curve.x, curve.share, strict=True)
    ]


def _stairs(curve: Curve, across: Scale, up: Scale) -> Markup:
    points = _points(curve, across, up)
    if not points:
        return Markup("")
    d = f"M{_LEFT} {_TOP}H{points[0][0]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points)
    return element("path", d=d, class_="survival")


def _line(curve: Curve, across: Scale, up: Scale, kind: str) -> Markup:
    inside = [
        (across.place(float(x)), up.place(float(share)))
        for x, share in zip(curve.x, curve.share, strict=True)
        if across.holds(float(x))
    ]
    d = "L".join(f"{x:.1f} {y:.1f}" for x, y in inside)
    return element("path", d=f"M{d}", class_=kind) if inside else Markup("")


def _open(curve: Curve, across: Scale, up: Scale) -> Markup:
    return group(
        *(
            element("path", d=f"M{x:.1f} {y:.1f}l4.5 -8h-9z", class_="running")
            for x, y in _points(curve, across, up)[-50:]
        )
    )
