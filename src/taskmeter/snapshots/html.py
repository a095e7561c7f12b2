"""What Python and notebooks show of a prefix and a snapshot: a line, and small pieces of HTML.

Nothing here is more than text and a few shapes in the notebook's own colours, so that it can be
read in any theme. Names come from users: every one is made printable and escaped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskmeter.distributions.html import Row, block, table
from taskmeter.distributions.quantiles import quantiles
from taskmeter.text import count, duration, percentage, seconds, short_name, size

if TYPE_CHECKING:
    from taskmeter.snapshots.snapshot import Snapshot, WorkerStatus
    from taskmeter.snapshots.stats import GroupStats, PrefixStats, Transfers

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
    for name, d, unit in (
        *((name, d, "seconds") for name, d in stats.durations.items()),
        ("failed", stats.failed_durations, "seconds"),
        *((f"waits: {stage}", d, "seconds") for stage, d in stats.waits.items()),
        ("output", stats.output_bytes, "bytes"),
    ):
        if d.count:
            parts.append(d.to_html(name=name, unit=unit))
    return block(*parts)


def of_snapshot(snapshot: Snapshot) -> str:
    """Return `Snapshot._repr_html_`: the cluster in a line, and the prefixes that cost most."""
    s = snapshot
    head = f"<b>Snapshot</b> {_cluster(s)}"
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


def text_of_prefix(stats: PrefixStats) -> str:
    """Return `PrefixStats.__repr__`: what it cost and how its attempts ended, on a line."""
    d = stats.durations["compute"]
    parts = [f"compute {duration(stats.compute_seconds)}"]
    if stats.executing:
        parts.append(f"{stats.executing:,} running")
    parts += [f"{t.count:,} {outcome}" for outcome, t in stats.attempts.items() if t.count]
    if d.count:
        p50, p95 = d.quantile([0.5, 0.95]).tolist()
        parts.append(f"p50 {duration(p50)}, p95 {duration(p95)}")
    return f"<PrefixStats: {', '.join(parts)}>"


def text_of_snapshot(snapshot: Snapshot) -> str:
    """Return `Snapshot.__repr__`: the cluster and the prefixes that cost most, on a line."""
    s = snapshot
    costliest = sorted(s.prefixes, key=lambda name: (-s.prefixes[name].compute_seconds, name))[:3]
    shown = (f"{short_name(n)} {duration(s.prefixes[n].compute_seconds)}" for n in costliest)
    more = len(s.prefixes) - len(costliest)
    prefixes = "; ".join((*shown, *([f"{more:,} more"] if more else [])))
    return f"<Snapshot {_cluster(s)}{': ' if prefixes else ''}{prefixes}>"


def _cluster(s: Snapshot) -> str:
    workers = len(s.workers)
    return (
        f"of {seconds(s.elapsed_seconds)}: {workers:,} worker{'' if workers == 1 else 's'}, "
        f"{s.nthreads:,} threads, {s.executing:,} running, compute {seconds(s.compute_seconds)} "
        f"of {seconds(s.thread_seconds)} ({percentage(s.utilisation)})"
    )


def text_of_group(group: GroupStats) -> str:
    """Return `GroupStats.__repr__`: its attempts and how long it took, on a line."""
    ok, failed = group.durations["compute"].count, group.failed_durations.count
    return (
        f"<GroupStats of {short_name(group.prefix)}: {ok:,} ok, {failed:,} failed, compute "
        f"{duration(group.compute_seconds)} in {duration(group.wall_seconds)} by the clock>"
    )


def text_of_transfers(transfers: Transfers) -> str:
    """Return `Transfers.__repr__`: how many and how much, on a line."""
    moved = f"{transfers.seconds.count:,} of {size(transfers.bytes.sum)}"
    return f"<Transfers: {moved} in {duration(transfers.seconds.sum)}>"


def text_of_worker(worker: WorkerStatus) -> str:
    """Return `WorkerStatus.__repr__`: what it did with its capacity, on a line."""
    used = f"compute {seconds(worker.compute_seconds)} of {seconds(worker.thread_seconds)}"
    metered = "" if worker.metered else ", not metered"
    return f"<WorkerStatus {worker.address}: {worker.nthreads:,} threads, {used}{metered}>"
