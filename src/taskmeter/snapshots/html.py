"""What a notebook shows of a distribution, a prefix and a snapshot: small pieces of HTML.

Nothing here is more than text and a few shapes in the notebook's own colours, so that it can be
read in any theme. Names come from users: every one is made printable and escaped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from taskmeter.distributions.quantiles import quantiles
from taskmeter.text import count, duration, percentage, seconds, short_name

if TYPE_CHECKING:
    from taskmeter.distributions.distribution import Distribution
    from taskmeter.distributions.grid import Floats
    from taskmeter.snapshots.snapshot import Snapshot
    from taskmeter.snapshots.stats import PrefixStats

#: Rows of a snapshot's table; the other prefixes are counted.
MOST_ROWS = 12

_BARS = 48
_WIDTH, _HEIGHT, _BOX = 240, 44, 12
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Row = Sequence[str]


def of_distribution(d: Distribution) -> str:
    """Give `Distribution._repr_html_`: its histogram over a box, and its figures."""
    head = f"<b>Distribution</b> of {d.count:,} value{'' if d.count == 1 else 's'}"
    if d.invalid:
        head += f", {d.invalid:,} invalid left out"
    if not d.count:
        return _block(head)
    p50, p95, p99 = d.quantile([0.5, 0.95, 0.99]).tolist()
    figures = {
        "mean": d.mean, "std": d.std, "min": d.minimum, "p50": p50, "p95": p95, "p99": p99,
        "max": d.maximum,
    }  # fmt: skip
    shown = {title: f"{value:.4g}" for title, value in figures.items() if math.isfinite(value)}
    figures_table = _table([tuple(shown), tuple(shown.values())])
    return _block(head, sketch(d, f"{d.count:,} values"), figures_table)


def of_prefix(stats: PrefixStats) -> str:
    """Give `PrefixStats._repr_html_`: what it cost, how its attempts ended, how long they took."""
    costs = {
        "compute": seconds(stats.compute_seconds),
        "seceded": seconds(stats.seceded_seconds) if stats.seceded_seconds else "",
        "CPU": seconds(stats.cpu_seconds) if stats.cpu_seconds else "",
        "wasted": seconds(stats.wasted_seconds) if stats.wasted_seconds else "",
        "running": count(stats.executing),
        **{outcome: count(totals.count) for outcome, totals in stats.attempts.items()},
    }
    shown = {title: cell for title, cell in costs.items() if cell}
    parts = ["<b>PrefixStats</b>", _table([tuple(shown), tuple(shown.values())])]
    for title, d in (
        *((name, d) for name, d in stats.durations.items()),
        ("failed", stats.failed_durations),
    ):
        if d.count:
            parts.append(
                f"<div>{escape(short_name(title))}: {_spread(d)}</div>{sketch(d, _spread(d))}"
            )
    return _block(*parts)


def of_snapshot(snapshot: Snapshot) -> str:
    """Give `Snapshot._repr_html_`: the cluster in a line, and the prefixes that cost most."""
    s = snapshot
    workers = len(s.workers)
    head = (
        f"<b>Snapshot</b> of {seconds(s.elapsed_seconds)}: {workers:,} "
        f"worker{'' if workers == 1 else 's'}, {s.nthreads:,} threads, {s.executing:,} running, "
        f"compute {seconds(s.compute_seconds)} of {seconds(s.thread_seconds)} "
        f"({percentage(s.utilisation)})"
    )
    # the name decides between equals
    names = sorted(s.prefixes, key=lambda name: (-s.prefixes[name].compute_seconds, name))
    if not names:
        return _block(head)
    top = names[:MOST_ROWS]
    spreads = quantiles([s.prefixes[name].durations["compute"] for name in top], [0.5, 0.95])
    rows: list[Row] = [("prefix", "compute", "running", "ok", "not ok", "p50", "p95")]
    for name, (p50, p95) in zip(top, spreads.tolist(), strict=True):
        stats = s.prefixes[name]
        ok = stats.attempts["ok"].count
        rows.append(
            (
                short_name(name),
                duration(stats.compute_seconds),
                count(stats.executing),
                count(ok),
                count(stats.ended - ok),
                seconds(p50),
                seconds(p95),
            )
        )
    more = len(names) - len(top)
    return _block(head, _table(rows), f"<div>and {more:,} more</div>" if more else "")


def sketch(d: Distribution, title: str) -> str:
    """Give a small drawing of a distribution: its histogram above a box, on one axis.

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


def _spread(d: Distribution) -> str:
    """Give a distribution of seconds in a line."""
    p50, p95 = d.quantile([0.5, 0.95]).tolist()
    return (
        f"{d.count:,} values, mean {duration(d.mean)}, p50 {duration(p50)}, p95 {duration(p95)}, "
        f"max {duration(d.maximum)}"
    )


def _block(*parts: str) -> str:
    return f'<div class="taskmeter">{"".join(parts)}</div>'


def _table(rows: Sequence[Row]) -> str:
    head, *body = ([escape(cell) for cell in row] for row in rows)
    return (
        f"<table><thead><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead><tbody>"
        + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in body)
        + "</tbody></table>"
    )
