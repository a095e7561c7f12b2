"""The table of costs: by span, client and annotation, in seconds and in money."""

from __future__ import annotations

import math
from dataclasses import dataclass

from taskmeter.snapshots.costs import Cost
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration, percentage, size
from taskmeter.views.tables.column import Column, seconds

_SECONDS_AN_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What one span, client or annotation cost.

    Parameters
    ----------
    kind, name
        As in `Snapshot.costs`.
    cost
        What it cost.
    share
        Of the compute of its kind.
    money
        In the currency of the price; nan where there is none.
    """

    kind: str
    name: str
    cost: Cost
    share: float
    money: float


def money(snapshot: Snapshot, thread_seconds: float) -> float:
    """Return what some thread seconds cost; nan where there is no price."""
    price = snapshot.price_per_thread_hour
    return math.nan if price is None else thread_seconds / _SECONDS_AN_HOUR * price


def cost_rows(snapshot: Snapshot) -> tuple[CostRow, ...]:
    """Return a row for each span, client and annotation, the dearest of each kind first."""
    totals: dict[str, float] = {}
    for (kind, _), cost in snapshot.costs.items():
        totals[kind] = totals.get(kind, 0.0) + cost.compute_seconds
    rows = [
        CostRow(
            kind=kind,
            name=name,
            cost=cost,
            share=cost.compute_seconds / totals[kind] if totals[kind] else math.nan,
            money=money(snapshot, cost.compute_seconds),
        )
        for (kind, name), cost in snapshot.costs.items()
    ]
    kinds = list(totals)
    return tuple(sorted(rows, key=lambda r: (kinds.index(r.kind), -r.cost.compute_seconds, r.name)))


def amount(value: float) -> str:
    """Return an amount of money with two digits, or three that count; empty for nan."""
    if math.isnan(value):
        return ""
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.3g}"


def price_line(snapshot: Snapshot) -> str:
    """Return what the capacity cost, in a sentence; empty where there is no price."""
    if snapshot.price_per_thread_hour is None or not snapshot.thread_seconds:
        return ""
    spent = snapshot.compute_seconds
    wasted = math.fsum(stats.wasted_seconds for stats in snapshot.prefixes.values())
    idle = max(0.0, snapshot.thread_seconds - spent)
    return (
        f"At {snapshot.price_per_thread_hour:g} a thread hour, {duration(snapshot.thread_seconds)} "
        f"of thread time cost {amount(money(snapshot, snapshot.thread_seconds))}: "
        f"{amount(money(snapshot, spent))} compute, {amount(money(snapshot, wasted))} of it "
        f"wasted, and {amount(money(snapshot, idle))} idle."
    )


#: The columns, from left to right.
COST_COLUMNS: tuple[Column[CostRow], ...] = (
    Column(title="of", hint="A span, a client or an annotation.", value=lambda r: r.kind, rank=3),
    Column(
        title="name",
        hint="Its name; empty is what is not known.",
        value=lambda r: r.name or "(unknown)",
        rank=0,
        least=24,
        always=True,
    ),
    seconds("compute", "Of attempts that ended.", lambda r: r.cost.compute_seconds, 1),
    Column(
        title="share",
        hint="Of the compute of its kind.",
        value=lambda r: r.share,
        write=percentage,
        rank=4,
    ),
    seconds(
        "wasted",
        "Of attempts that failed, were cancelled, rescheduled or lost.",
        lambda r: r.cost.wasted_seconds,
        2,
    ),
    Column(
        title="output",
        hint="Size of the results.",
        value=lambda r: r.cost.output_bytes,
        write=size,
        rank=5,
        blank=True,
    ),
    Column(
        title="money",
        hint="At the price of a thread hour; idle time is not in it.",
        value=lambda r: r.money,
        write=amount,
        rank=2,
    ),
)
