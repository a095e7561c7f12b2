"""Transfers between workers: who sends how much to whom, and how fast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from taskmeter.attempts.attempt import OTHER
from taskmeter.distributions.merge import merge_all
from taskmeter.distributions.quantiles import quantiles
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import TransferStats
from taskmeter.views.figures.top import REST, top
from taskmeter.views.tables.running import worker_names

#: Workers with a row and a column of their own.
MOST_WORKERS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What went from one worker, or from all others, to another.

    Parameters
    ----------
    source, destination
        Their names; `REST` for all that are not shown.
    count
        Transfers.
    bytes, seconds
        Totals.
    bandwidth
        The median, in bytes a second.
    """

    source: str
    destination: str
    count: int
    bytes: float
    seconds: float
    bandwidth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Who sends to whom.

    Parameters
    ----------
    workers
        Those with most traffic, by name; `REST` is the last if there are more.
    cells
        Pairs between which anything was sent.
    """

    workers: tuple[str, ...] = ()
    cells: tuple[Cell, ...] = ()


def matrix(snapshot: Snapshot, most: int = MOST_WORKERS) -> Matrix:
    """Return the pairs of the workers with most bytes in and out, the rest as one.

    The cells add up to all that is known of pairs.
    """
    names = worker_names(snapshot)
    pairs = {
        (names.get(source, source), names.get(destination, destination)): stats
        for (source, destination), stats in snapshot.transfers.pairs.items()
        if stats.seconds.count
    }
    traffic: dict[str, float] = {}
    for pair, stats in pairs.items():
        for worker in pair:
            if worker != OTHER:
                traffic[worker] = traffic.get(worker, 0.0) + stats.bytes.sum
    shown = set(top(traffic, most).kept)
    parts: dict[tuple[str, str], list[TransferStats]] = {}
    for (source, destination), stats in pairs.items():
        cell = (source if source in shown else REST, destination if destination in shown else REST)
        parts.setdefault(cell, []).append(stats)
    speeds = [merge_all(stats.bandwidth for stats in several) for several in parts.values()]
    medians = quantiles(speeds, [0.5])[:, 0].tolist()
    cells = tuple(
        _cell(*pair, several, median)
        for (pair, several), median in zip(parts.items(), medians, strict=True)
    )
    rest = any(REST in pair for pair in parts)
    return Matrix(workers=(*sorted(shown, key=_natural), *((REST,) if rest else ())), cells=cells)


def _cell(source: str, destination: str, several: Sequence[TransferStats], median: float) -> Cell:
    return Cell(
        source=source,
        destination=destination,
        count=sum(stats.seconds.count for stats in several),
        bytes=math.fsum(stats.bytes.sum for stats in several),
        seconds=math.fsum(stats.seconds.sum for stats in several),
        bandwidth=median,
    )


def _natural(name: str) -> tuple[int, str]:
    """Order numbers by size, which is how Dask names the workers of a local cluster."""
    return (int(name), "") if name.isdecimal() and len(name) < 10 else (10**9, name)
