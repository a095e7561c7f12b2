"""What a notebook shows of a prefix and a snapshot: small pieces of HTML.

Nothing here is more than text and a few shapes in the notebook's own colours, so that it can be
read in any theme. Names come from users: every one is made printable and escaped.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from taskmeter.distributions.html import Row, block, sketch, table
from taskmeter.distributions.quantiles import quantiles
from taskmeter.text import count, duration, percentage, seconds, short_name

if TYPE_CHECKING:
    from taskmeter.distributions.distribution import Distribution
    from taskmeter.snapshots.snapshot import Snapshot
    from taskmeter.snapshots.stats import PrefixStats

#: Rows of a snapshot's table; the other prefixes are counted.
MOST_ROWS = 12


def of_prefix(stats: PrefixStats) -> str:
    """Return `PrefixStats._repr_html_`: its cost, its attempts' outcomes and durations."""
    costs = {
        "compute": seconds(stats.compute_seconds),
        "seceded": seconds(stats.seceded_seconds) if stats.seceded_seconds else "",
        "CPU": seconds(stats.cpu_seconds) if stats.cpu_seconds else "",
        "wasted": seconds(stats.wasted_seconds) if stats.wasted_seconds else "",
        "running": count(stats.executing),
        **{outcome: count(totals.count) for outcome, totals in stats.attempts.items()},
    }
    shown = {title: cell for title, cell in costs.items() if cell}
    parts = ["<b>PrefixStats</b>", table([tuple(shown), tuple(shown.values())])]
    for title, d in (
        *((name, d) for name, d in stats.durations.items()),
        ("failed", stats.failed_durations),
    ):
        if d.count:
            parts.append(
                f"<div>{escape(short_name(title))}: {_spread(d)}</div>{sketch(d, _spread(d))}"
            )
    return block(*parts)


def of_snapshot(snapshot: Snapshot) -> str:
    """Return `Snapshot._repr_html_`: the cluster in a line, and the prefixes that cost most."""
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
        return block(head)
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
    return block(head, table(rows), f"<div>and {more:,} more</div>" if more else "")


def _spread(d: Distribution) -> str:
    """Return a distribution of seconds in a line."""
    p50, p95 = d.quantile([0.5, 0.95]).tolist()
    return (
        f"{d.count:,} values, mean {duration(d.mean)}, p50 {duration(p50)}, p95 {duration(p95)}, "
        f"max {duration(d.maximum)}"
    )
