"""The course of a cluster as layers of a picture: rates, so that moments may differ in length."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from taskmeter.catalogue.words import IDLE
from taskmeter.history.moment import BAND, MOST_NAMES, Moment
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.window import added_seconds
from taskmeter.views.figures.top import REST, top

#: Moments that are kept: five minutes of one a second.
MOST_MOMENTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """What of a snapshot is needed to see what is added after it."""

    at: float
    start: float
    compute_seconds: Mapping[str, float]
    thread_seconds: float
    idle_seconds: Mapping[str, float]
    ended: int
    #: {worker: (compute seconds, thread seconds)}
    workers: Mapping[str, tuple[float, float]]


class History:
    """A bounded number of moments, the oldest first.

    Parameters
    ----------
    most
        Moments to keep.
    """

    def __init__(self, most: int = MOST_MOMENTS) -> None:
        self._moments: deque[Moment] = deque(maxlen=most)
        self._last: _Totals | None = None

    @property
    def moments(self) -> tuple[Moment, ...]:
        """What is known."""
        return tuple(self._moments)

    def add(self, snapshot: Snapshot) -> None:
        """Take in a snapshot, which must be newer than the last one; others are passed over.

        If figures count from another beginning than before, the history begins anew.
        """
        totals = _totals(snapshot)
        last = self._last
        if last is not None and last.start != totals.start:
            self.clear()
            last = None
        if last is not None:
            if totals.at <= last.at:
                return
            self._moments.append(_between(last, totals))
        self._last = totals

    def clear(self) -> None:
        """Forget everything."""
        self._moments.clear()
        self._last = None


def _totals(snapshot: Snapshot) -> _Totals:
    return _Totals(
        at=snapshot.at,
        start=snapshot.start,
        compute_seconds={n: p.compute_seconds for n, p in snapshot.prefixes.items()},
        thread_seconds=snapshot.thread_seconds,
        idle_seconds=dict(snapshot.idle_seconds),
        ended=sum(p.ended for p in snapshot.prefixes.values()),
        workers={w.address: (w.compute_seconds, w.thread_seconds) for w in snapshot.workers},
    )


def _between(old: _Totals, new: _Totals) -> Moment:
    added, idle = added_seconds(
        (new.compute_seconds, new.idle_seconds), (old.compute_seconds, old.idle_seconds)
    )
    split = top({name: seconds for name, seconds in added.items() if seconds}, MOST_NAMES)
    return Moment(
        start=old.at,
        stop=new.at,
        compute_seconds={name: added[name] for name in split.kept},
        rest_seconds=math.fsum(added[name] for name in split.rest),
        thread_seconds=max(0.0, new.thread_seconds - old.thread_seconds),
        idle_seconds=idle,
        ended=max(0, new.ended - old.ended),
        band=_band(old.workers, new.workers),
    )


def _band(
    old: Mapping[str, tuple[float, float]], new: Mapping[str, tuple[float, float]]
) -> tuple[float, ...]:
    shares = []
    for worker, (compute, threads) in new.items():
        before = old.get(worker)
        if before is not None and threads > before[1]:
            shares.append(min(1.0, max(0.0, compute - before[0]) / (threads - before[1])))
    return tuple(np.quantile(shares, BAND).tolist()) if shares else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Rates over time, one on top of the other.

    Parameters
    ----------
    names
        What the layers are called, the lowest first; the last may be `REST`.
    rates
        ``{name: rate of each moment}``.
    capacity
        Threads there were at each moment.
    edges
        ``[(start, stop)]`` of each moment.
    """

    names: tuple[str, ...]
    rates: Mapping[str, Sequence[float]]
    capacity: Sequence[float]
    edges: Sequence[tuple[float, float]]


def compute_layers(moments: Sequence[Moment], most: int = 6) -> Layers:
    """Return how many threads each prefix kept busy, those with most over the whole time first.

    At every moment the layers add up to all there was.
    """
    sums: dict[str, float] = {}
    for moment in moments:
        for name, seconds in moment.compute_seconds.items():
            sums[name] = sums.get(name, 0.0) + seconds
    kept = top(sums, most).kept
    rates = {
        name: [moment.compute_seconds.get(name, 0.0) / moment.seconds for moment in moments]
        for name in kept
    }
    names = kept
    if len(kept) < len(sums) or any(moment.rest_seconds for moment in moments):
        named = [math.fsum(m.compute_seconds.get(name, 0.0) for name in kept) for m in moments]
        rates[REST] = [
            max(0.0, moment.busy_seconds - known) / moment.seconds
            for moment, known in zip(moments, named, strict=True)
        ]
        names = (*kept, REST)
    return Layers(
        names=names,
        rates=rates,
        capacity=[moment.thread_seconds / moment.seconds for moment in moments],
        edges=[(moment.start, moment.stop) for moment in moments],
    )


def capacity_layers(moments: Sequence[Moment]) -> dict[str, list[float]]:
    """Return ``{"compute" or reason: its share of the capacity at each moment}``, from 0 to 1.

    What was wasted is not told apart: that is known only when an attempt ends, and most of its time
    may have been long before.
    """
    layers: dict[str, list[float]] = {"compute": [], **{reason: [] for reason in IDLE}}
    for moment in moments:
        seconds = {"compute": moment.busy_seconds, **moment.idle_seconds}
        whole = max(moment.thread_seconds, math.fsum(seconds.values()))
        for kind, values in layers.items():
            values.append(seconds.get(kind, 0.0) / whole if whole else 0.0)
    return layers


def stepped(values: Sequence[float]) -> list[float]:
    """Return each value twice, for the beginning and the end of its moment."""
    return [value for value in values for _ in range(2)]
