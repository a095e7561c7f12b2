"""What a notebook shows of a distribution: its histogram, a box and its figures, as HTML.

Only text and a few shapes in the notebook's own colours, so that it is legible in any theme.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from taskmeter.text import bandwidth, duration, short_name, size

if TYPE_CHECKING:
    from taskmeter.distributions.distribution import Distribution
    from taskmeter.distributions.grid import Floats

_BARS = 48
_WIDTH, _HEIGHT, _BOX = 240, 44, 12
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Row = Sequence[str]


#: ``{unit: writes a number of it}``
_UNITS: Mapping[str, Callable[[float], str]] = {
    "seconds": duration,
    "bytes": size,
    "bytes/s": bandwidth,
}


def of_distribution(d: Distribution, *, name: str = "", unit: str = "") -> str:
    """Return `Distribution.to_html`: its histogram over a box, and its figures."""
    write = _UNITS.get(unit) or (lambda value: f"{value:.4g} {unit}".rstrip())
    title = f"{d.count:,} value{'' if d.count == 1 else 's'}"
    head = f"<b>{escape(short_name(name)) if name else 'Distribution'}</b> of {title}"
    if d.invalid:
        head += f", {d.invalid:,} invalid left out"
    if not d.count:
        return block(head)
    p50, p95, p99 = d.quantile([0.5, 0.95, 0.99]).tolist()
    figures = {
        "mean": d.mean, "std": d.std, "min": d.minimum, "p50": p50, "p95": p95, "p99": p99,
        "max": d.maximum,
    }  # fmt: skip
    shown = {title: write(value) for title, value in figures.items() if math.isfinite(value)}
    figures_table = table([tuple(shown), tuple(shown.values())])
    return block(head, sketch(d, title), figures_table)


def sketch(d: Distribution, title: str) -> str:
    """Return a small drawing of a distribution: its histogram above a box, on one axis.

    The box is from p25 to p75 with the median, its whiskers end at p5 and p95. The axis is
    logarithmic where the values span a factor of 20 or more. Values of 0 are left out of the
    drawing.
    """
    bounds = d.bucket_bounds
    if bounds.size < 2:
        return ""
    # a bound below the least of all floats is 0
    low, high = max(d.minimum, float(bounds[0]), 1e-300), d.maximum
    if not low < high:
        return ""
    logarithmic = high >= 20 * low

    def place(values: Floats) -> Floats:
        at = np.clip(values, low, high)
        if logarithmic:
            # a ratio may be greater than all floats
            share = (np.log(at) - math.log(low)) / (math.log(high) - math.log(low))
        else:
            share = (at - low) / (high - low)
        return np.asarray(2 + share * (_WIDTH - 4), dtype=np.float64)

    middles = place((bounds[:-1] + bounds[1:]) / 2)
    heights, edges = np.histogram(
        middles, bins=_BARS, range=(2, _WIDTH - 2), weights=d.bucket_counts
    )
    room = _HEIGHT - _BOX - 4
    bars = "".join(
        f'<rect x="{x:.1f}" y="{room - height:.1f}" width="{edges[1] - edges[0] - 0.6:.1f}" '
        f'height="{height:.1f}"/>'
        for x, height in zip(edges[:-1], heights / heights.max() * room, strict=True)
        if height > 0
    )
    p5, p25, p50, p75, p95 = place(d.quantile(_QUANTILES)).tolist()
    middle, top = _HEIGHT - _BOX / 2, _HEIGHT - _BOX + 2
    box = (
        f'<path d="M{p5:.1f} {middle}H{p25:.1f}M{p75:.1f} {middle}H{p95:.1f}M{p50:.1f} {top}'
        f'v{_BOX - 4}" stroke="currentColor" stroke-width="1.5"/>'
        f'<rect x="{p25:.1f}" y="{top}" width="{max(p75 - p25, 1):.1f}" height="{_BOX - 4}" '
        'fill="none" stroke="currentColor"/>'
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<g fill="currentColor" fill-opacity="0.45">{bars}</g>{box}</svg>'
    )


def block(*parts: str) -> str:
    """Return pieces of HTML as one element."""
    return f'<div class="taskmeter">{"".join(parts)}</div>'


def table(rows: Sequence[Row]) -> str:
    """Return rows of text as an HTML table; the first row is its head."""
    head, *body = ([escape(cell) for cell in row] for row in rows)
    return (
        f"<table><thead><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead><tbody>"
        + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body)
        + "</tbody></table>"
    )
