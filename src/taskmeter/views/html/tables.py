"""The tables of the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import ActivityTotals
from taskmeter.text import size
from taskmeter.views.html.table import Table, table
from taskmeter.views.tables.column import Column, counts, seconds
from taskmeter.views.tables.costs import COST_COLUMNS, cost_rows
from taskmeter.views.tables.failures import FAILURE_COLUMNS, failure_rows
from taskmeter.views.tables.groups import GROUP_COLUMNS, group_rows
from taskmeter.views.tables.prefixes import DETAILED, needed, rows
from taskmeter.views.tables.running import RUNNING_COLUMNS, running_table
from taskmeter.views.tables.transfers import PAIR_COLUMNS, pair_rows
from taskmeter.views.tables.workers import WORKER_COLUMNS, worker_rows

#: The most rows of the tables that may be long, but for that of prefixes, which is complete.
MOST_ROWS = 2000


def tables(snapshot: Snapshot) -> dict[str, Table]:
    """Return ``{name: table}`` of everything that a report lists, what matters most first."""
    running = running_table(snapshot, MOST_ROWS).rows
    groups = group_rows(snapshot)[:MOST_ROWS]
    pairs = pair_rows(snapshot.transfers)[:MOST_ROWS]
    activities = activity_rows(snapshot)[:MOST_ROWS]
    errors = sorted(snapshot.errors.items(), key=lambda item: (-item[1], item[0]))
    made = (
        table("prefixes", "prefixes", DETAILED, rows(snapshot, measures=needed(DETAILED))),
        table("groups", "groups", GROUP_COLUMNS, groups),
        table("workers", "workers", WORKER_COLUMNS, worker_rows(snapshot)[:MOST_ROWS]),
        table("failures", "kinds of failures", FAILURE_COLUMNS, failure_rows(snapshot)),
        table("costs", "names", COST_COLUMNS, cost_rows(snapshot)[:MOST_ROWS]),
        table("running", "attempts", RUNNING_COLUMNS, running),
        table("transfers", "pairs", PAIR_COLUMNS, pairs),
        table("activities", "activities", _ACTIVITIES, activities),
        table("errors", "places", _ERRORS, errors),
    )
    return {listing.name: listing for listing in made}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityRow:
    """What Dask did, of a kind.

    Parameters
    ----------
    context
        Where: ``execute`` is as a part of tasks.
    activity
        What.
    totals
        How much.
    """

    context: str
    activity: str
    totals: ActivityTotals


def activity_rows(snapshot: Snapshot) -> list[ActivityRow]:
    """Return Dask's fine performance metrics, those of tasks over all prefixes together."""
    sums: dict[tuple[str, str], ActivityTotals] = {}
    for stats in snapshot.prefixes.values():
        for activity, totals in stats.activities.items():
            known = sums.get(("execute", activity), ActivityTotals())
            sums["execute", activity] = known.plus(totals.seconds, totals.bytes, totals.count)
    every: Mapping[tuple[str, str], ActivityTotals] = {**sums, **snapshot.activity_totals}
    activities = [
        ActivityRow(context=context, activity=activity, totals=totals)
        for (context, activity), totals in every.items()
    ]
    return sorted(activities, key=lambda r: (-r.totals.seconds, r.context, r.activity))


_ACTIVITIES: tuple[Column[ActivityRow], ...] = (
    Column(title="activity", hint="What was done.", value=lambda r: r.activity, always=True),
    Column(
        title="context",
        hint="execute: for a task, in its thread or beside it; others: outside of tasks.",
        value=lambda r: r.context,
    ),
    seconds(
        "seconds", "The time it took, added up over threads and tasks.", lambda r: r.totals.seconds
    ),
    Column(title="bytes", hint="Bytes.", value=lambda r: r.totals.bytes, write=size, blank=True),
    counts("count", "How often.", lambda r: r.totals.count),
)

_ERRORS: tuple[Column[tuple[str, int]], ...] = (
    Column(title="where", hint="The part of taskmeter.", value=lambda r: r[0], always=True),
    counts("times", "How often.", lambda r: r[1], alarm=True),
)
