"""Two runs beside each other, as one page of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from markupsafe import Markup

from taskmeter.history.comparison import Comparison, PrefixChange
from taskmeter.text import duration, short_name, terminal_safe
from taskmeter.views.html.document import rendered
from taskmeter.views.html.facts import instant
from taskmeter.views.html.markup import element, group, picture, text
from taskmeter.views.html.scale import Scale
from taskmeter.views.html.table import table
from taskmeter.views.tables.comparison import (
    CAPACITY_COLUMNS,
    CHANGE_COLUMNS,
    capacity_changes,
    interval,
    sentences,
    signed,
    times,
)

#: Prefixes that the picture has.
_MOST = 30

#: The axis shows factors within these; what is beyond is drawn at its end.
_LEAST, _LARGEST = 0.1, 10.0

_TICKS = (0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0, 10.0)

_WIDTH = 1120
_LEFT, _RIGHT = 270, 860
_PITCH, _TOP, _BOTTOM = 24, 8, 26


def comparison_page(
    found: Comparison, *, names: tuple[str, str], fail_above: float | None = None
) -> str:
    """Return a comparison as HTML.

    Parameters
    ----------
    found
        The comparison.
    names
        Where the two runs come from.
    fail_above
        As for `taskmeter.views.tables.comparison.sentences`.
    """
    shown = [terminal_safe(name[:200]) for name in names]
    runs = (
        f"{name}: {instant(run.start)}, {duration(run.elapsed_seconds)}"
        for name, run in zip(shown, (found.before, found.after), strict=True)
    )
    return rendered(
        "comparison.html",
        title=f"taskmeter: {shown[0]} and {shown[1]}",
        where=" · ".join(runs),
        sentences=sentences(found, fail_above),
        figure=ratios(found.changes),
        prefixes=table("prefixes", "prefixes", CHANGE_COLUMNS, found.changes),
        capacity=table(
            "capacity", "parts", CAPACITY_COLUMNS, capacity_changes(found.before, found.after)
        ),
    )


def ratios(changes: Sequence[PrefixChange]) -> Markup:
    """Draw how many times longer each prefix takes; nothing where no prefix is in both runs."""
    shown = [change for change in changes if isfinite(change.mean.value)][:_MOST]
    if not shown:
        return Markup("")
    ends = [value for c in shown for value in (c.mean.low, c.mean.high, c.mean.value)]
    scale = Scale(
        low=max(_LEAST, min(0.75, *ends)),
        high=min(_LARGEST, max(1.35, *ends)),
        start=_LEFT,
        stop=_RIGHT,
        logarithmic=True,
    )
    height = _TOP + _PITCH * len(shown) + _BOTTOM
    rows = [_row(c, scale, _TOP + _PITCH * (place + 0.5)) for place, c in enumerate(shown)]
    return picture(_WIDTH, height, "How many times longer", _axis(scale, height), *rows)


def _axis(scale: Scale, height: float) -> Markup:
    bottom = height - _BOTTOM + 4
    places = [(value, scale.place(value)) for value in _TICKS if scale.holds(value)]
    lines = [element("line", x1=x, x2=x, y1=_TOP, y2=bottom) for _, x in places]
    labels = [text(f"{value:g}", x, bottom + 16, anchor="middle") for value, x in places]
    return group(group(*lines, class_="grid"), group(*labels, class_="axis"))


def _row(change: PrefixChange, scale: Scale, middle: float) -> Markup:
    ratio = change.mean
    kind = "idle" if not ratio.certain else "waste" if ratio.low > 1 else "compute"
    low, value, high = map(scale.place, (ratio.low, ratio.value, ratio.high))
    says = f"{terminal_safe(change.prefix[:300])}\n{times(ratio.value)} times ({interval(ratio)})"
    return group(
        element("title", says),
        text(short_name(change.prefix, 34), _LEFT - 12, middle + 4, class_="name", anchor="end"),
        element("rect", x=low, y=middle - 2, width=max(1.0, high - low), height=4, class_=kind),
        element("circle", cx=value, cy=middle, r=5, class_=kind),
        text(times(ratio.value), _RIGHT + 80, middle + 4, class_="figures", anchor="end"),
        text(signed(change.seconds), _WIDTH - 4, middle + 4, class_="figures", anchor="end"),
    )
