"""Boxes and whiskers: durations of every prefix, group or worker side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.grid import representatives
from taskmeter.distributions.merge import merge_all
from taskmeter.distributions.quantiles import quantiles
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, PrefixStats
from taskmeter.views.figures.palette import SKY, prefix_colour
from taskmeter.views.figures.top import REST, Top, top
from taskmeter.views.tables.running import age, worker_names
from taskmeter.views.tables.spread import Spread, spreads

#: Boxes in one picture, the one of the rest aside.
MOST_BOXES = 20

#: Marks of one box.
MOST_MARKS = 30

RECENT: Final = "compute, last minutes"
FAILED: Final = "compute, failed"
RECEIVED: Final = "transfer, received"
SENT: Final = "transfer, sent"
IN_FLIGHT: Final = "compute, in flight"
_WAIT: Final = "wait, "

#: Actions of which attempts in flight are a part.
_WITH_RUNNING = frozenset({COMPUTE, RECENT, FAILED, IN_FLIGHT})

BY: Final = ("prefix", "group", "worker")

#: {measure that decides which boxes are shown: what it is called}
SORTS: Final[Mapping[str, str]] = {
    "total": "total time",
    "count": "count",
    "p50": "median",
    "p95": "p95",
    "mean": "mean",
    "running": "in flight",
}

_EMPTY = Distribution()


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxRow:
    """One box.

    Parameters
    ----------
    name
        Whose it is, exactly as Dask has it; `REST` for all that are not shown.
    spread
        Its figures: the box is p25 to p75, whiskers are p5 to p95.
    minimum, maximum
        Exact; nan where there is nothing.
    whiskers
        The outermost values within 1.5 interquartile ranges of the box.
    ages
        Present ages of attempts in flight, in seconds, the oldest first, `MOST_MARKS` at most.
    running
        Attempts in flight.
    failed
        All that ended has failed: the figures are of failed attempts.
    colour
        That of its prefix.
    outliers
        ``(seconds, how many)`` beyond 1.5 interquartile ranges from the box, to within 1.1 %; those
        farthest from the box, `MOST_MARKS` at most.
    """

    name: str
    spread: Spread
    minimum: float
    maximum: float
    whiskers: tuple[float, float]
    ages: tuple[float, ...] = ()
    running: int = 0
    failed: bool = False
    colour: str = SKY
    outliers: tuple[tuple[float, int], ...] = ()

    @property
    def remark(self) -> str:
        """What is special about it: ``only failed``, ``none ended``, or nothing."""
        if self.failed:
            return "only failed"
        return "" if self.spread.count else "none ended"


def actions(snapshot: Snapshot, by: str) -> tuple[str, ...]:
    """Return the actions of which something may be known, the most usual one first."""
    if by == "group":
        return (COMPUTE, FAILED)
    if by == "worker":
        return (IN_FLIGHT, RECEIVED, SENT)
    timed = {action for stats in snapshot.prefixes.values() for action in stats.durations}
    waits = {_WAIT + stage for stats in snapshot.prefixes.values() for stage in stats.waits}
    return (COMPUTE, RECENT, FAILED, *sorted(timed - {COMPUTE}), *sorted(waits))


def boxes(
    snapshot: Snapshot,
    *,
    by: str = "prefix",
    action: str = COMPUTE,
    sort: str = "total",
    most: int = MOST_BOXES,
) -> tuple[BoxRow, ...]:
    """Return a box each for those that have most of something, and one for the rest.

    Parameters
    ----------
    snapshot
        What to show.
    by
        One of `BY`.
    action
        One of `actions`.
    sort
        One of `SORTS`.
    most
        Boxes to give; the one of the rest comes on top.
    """
    every = distributions(snapshot, by, action)
    failed = _only_failed(snapshot, by, every) if action == COMPUTE else {}
    every |= failed
    ages = _ages(snapshot, by) if action in _WITH_RUNNING else {}
    every = {n: every.get(n, _EMPTY) for n in (*every, *(n for n in ages if n not in every))}
    every = {name: d for name, d in every.items() if d.count or ages.get(name)}
    split = top(_figures(every, ages, sort), most)
    shown = {name: every[name] for name in split.kept}
    marks = {name: ages.get(name, []) for name in split.kept}
    if split.rest:
        # durations of failed attempts are not merged with those of others
        ok = {name: _EMPTY if name in failed else d for name, d in every.items()}
        shown[REST], marks[REST] = _rest(ok, ages, split)
    return tuple(
        _row(snapshot, by, name, d, spread, marks[name], failed=name in failed)
        for (name, d), spread in zip(shown.items(), spreads(list(shown.values())), strict=True)
    )


def _row(
    snapshot: Snapshot,
    by: str,
    name: str,
    d: Distribution,
    spread: Spread,
    ages: list[float],
    *,
    failed: bool,
) -> BoxRow:
    whiskers, outliers = fences(d, spread.p25, spread.p75)
    return BoxRow(
        name=name,
        spread=spread,
        minimum=d.minimum,
        maximum=d.maximum,
        whiskers=whiskers,
        ages=tuple(ages[:MOST_MARKS]),
        running=len(ages),
        failed=failed,
        colour=_colour(snapshot, by, name),
        outliers=outliers,
    )


def _only_failed(
    snapshot: Snapshot, by: str, ok: Mapping[str, Distribution]
) -> dict[str, Distribution]:
    """Return the durations of failed attempts of those of which none ended ok."""
    failed = distributions(snapshot, by, FAILED) if by != "worker" else {}
    return {name: d for name, d in failed.items() if d.count and not ok[name].count}


def _colour(snapshot: Snapshot, by: str, name: str) -> str:
    if by == "worker":
        return SKY
    group = snapshot.groups.get(name) if by == "group" else None
    return prefix_colour(name if group is None else group.prefix)


def distributions(snapshot: Snapshot, by: str, action: str) -> dict[str, Distribution]:
    """Return ``{name: distribution of seconds}`` of an action, by prefix, group or worker."""
    if by == "group":
        return {
            name: g.failed_durations if action == FAILED else g.durations.get(COMPUTE, _EMPTY)
            for name, g in snapshot.groups.items()
        }
    if by == "worker":
        return _of_workers(snapshot, action)
    read = _of_prefix(action)
    return {name: read(stats) for name, stats in snapshot.prefixes.items()}


def _of_prefix(action: str) -> Callable[[PrefixStats], Distribution]:
    if action == RECENT:
        return lambda stats: stats.recent
    if action == FAILED:
        return lambda stats: stats.failed_durations
    if action.startswith(_WAIT):
        return lambda stats: stats.waits.get(action.removeprefix(_WAIT), _EMPTY)
    return lambda stats: stats.durations.get(action, _EMPTY)


def _of_workers(snapshot: Snapshot, action: str) -> dict[str, Distribution]:
    if action == IN_FLIGHT:
        return {name: Distribution.of(ages) for name, ages in _ages(snapshot, "worker").items()}
    end = 1 if action == RECEIVED else 0
    #: {worker: distributions of its pairs}
    parts: dict[str, list[Distribution]] = {}
    names = worker_names(snapshot)
    for pair, stats in snapshot.transfers.pairs.items():
        parts.setdefault(names.get(pair[end], pair[end]), []).append(stats.seconds)
    return {name: merge_all(several) for name, several in parts.items()}


def _ages(snapshot: Snapshot, by: str) -> dict[str, list[float]]:
    """Return ``{name: ages of its attempts in flight, the oldest first}``."""
    if by == "group":
        return {}
    names = worker_names(snapshot) if by == "worker" else {}
    ages: dict[str, list[float]] = {}
    for attempt in snapshot.running:
        name = names.get(attempt.worker, attempt.worker) if by == "worker" else attempt.prefix
        ages.setdefault(name, []).append(age(attempt, snapshot.at))
    return ages


def _figures(
    every: Mapping[str, Distribution], ages: Mapping[str, list[float]], sort: str
) -> dict[str, float]:
    if sort in {"p50", "p95"}:
        values = quantiles(every.values(), [0.5 if sort == "p50" else 0.95])[:, 0].tolist()
        return dict(zip(every, values, strict=True))
    if sort == "mean":
        return {name: d.mean for name, d in every.items()}
    if sort == "count":
        return {name: d.count for name, d in every.items()}
    running = {name: ages.get(name, []) for name in every}
    if sort == "running":
        return {name: len(running[name]) + 1 - 1 / (1 + every[name].sum) for name in every}
    return {name: d.sum + math.fsum(running[name]) for name, d in every.items()}


def _rest(
    every: Mapping[str, Distribution], ages: Mapping[str, list[float]], split: Top
) -> tuple[Distribution, list[float]]:
    merged = merge_all(every[name] for name in split.rest)
    return merged, sorted((a for name in split.rest for a in ages.get(name, ())), reverse=True)


def fences(
    d: Distribution, p25: float, p75: float
) -> tuple[tuple[float, float], tuple[tuple[float, int], ...]]:
    """Return Tukey's whiskers, and ``(value, how many)`` beyond them, those farthest out first.

    The whiskers end at the outermost values within 1.5 interquartile ranges of the box.
    """
    if not d.counts.size:
        return (d.minimum, d.maximum), ()
    used = np.flatnonzero(d.counts)
    values = np.clip(representatives(used + d.offset, d.schema), d.minimum, d.maximum)
    low, high = p25 - 1.5 * (p75 - p25), p75 + 1.5 * (p75 - p25)
    beyond = np.maximum(values - high, low - values)
    within = values[beyond <= 0]
    whiskers = (
        d.minimum if d.minimum >= low else float(min(within, default=p25)),
        d.maximum if d.maximum <= high else float(max(within, default=p75)),
    )
    places = [place for place in np.argsort(-beyond) if beyond[place] > 0][:MOST_MARKS]
    return whiskers, tuple((float(values[place]), int(d.counts[used[place]])) for place in places)


def wants_log(rows: Iterable[BoxRow], *, now_log: bool = False) -> bool:
    """Return whether the range calls for a logarithmic axis.

    Parameters
    ----------
    rows
        What is shown.
    now_log
        The axis is logarithmic already; then a smaller range will do, so that it does not go to and
        fro.
    """
    values = [
        value
        for row in rows
        for value in (row.spread.p5, row.spread.p95, row.maximum, *row.ages[:1])
        if value > 0
    ]
    return bool(values) and max(values) > (15 if now_log else 40) * min(values)
