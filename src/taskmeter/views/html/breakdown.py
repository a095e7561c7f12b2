"""Where the capacity went: compute, waste by kind, idleness by reason."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration, percentage
from taskmeter.views.html.markup import element, group, picture, text
from taskmeter.views.tables.capacity import Share, shares

_WIDTH = 1120
_LEFT, _RIGHT = 270, 930
_PITCH, _STRIP, _TOP = 26, 30, 48


def breakdown(snapshot: Snapshot) -> Markup:
    """Draw the parts of the capacity: all in one bar, and each in one of its own."""
    least = 1e-6 * snapshot.thread_seconds
    parts = [part for part in shares(snapshot) if part.seconds > least]
    if not parts:
        return Markup("")
    whole = max(snapshot.thread_seconds, math.fsum(part.seconds for part in parts))
    rows = [
        _row(part, part.seconds / whole, _TOP + _PITCH * place) for place, part in enumerate(parts)
    ]
    height = _TOP + _PITCH * len(parts) + 4
    return picture(_WIDTH, height, "Where the capacity went", _strip(parts, whole), *rows)


def _strip(parts: Sequence[Share], whole: float) -> Markup:
    x, drawn = 4.0, []
    for part in parts:
        width = part.seconds / whole * (_WIDTH - 8)
        inner = max(0.4, width - 1.5)
        bar = element("rect", x=x, y=4, width=inner, height=_STRIP, class_=part.group)
        label = percentage(part.share)
        drawn.append(group(element("title", _says(part)), bar))
        if width > 52:
            drawn.append(text(label, x + inner / 2, 24, class_=f"on-{part.group}", anchor="middle"))
        x += width
    return group(*drawn, class_="strip")


def _row(part: Share, share: float, y: float) -> Markup:
    middle = y + _PITCH / 2
    width = max(1.0, share * (_RIGHT - _LEFT))
    return group(
        element("title", _says(part)),
        text(part.label, _LEFT - 12, middle + 4, class_="name", anchor="end"),
        element("rect", x=_LEFT, y=middle - 8, width=_RIGHT - _LEFT, height=16, class_="track"),
        element("rect", x=_LEFT, y=middle - 8, width=width, height=16, class_=part.group),
        text(percentage(part.share), _RIGHT + 70, middle + 4, class_="figures", anchor="end"),
        text(duration(part.seconds), _WIDTH - 4, middle + 4, class_="figures", anchor="end"),
    )


def _says(part: Share) -> str:
    return f"{part.label}: {duration(part.seconds)}, {percentage(part.share)}"
