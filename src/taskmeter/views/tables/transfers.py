"""The tables of transfers: how much went between workers, how long it took, and how fast it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from taskmeter.attempts.attempt import OTHER
from taskmeter.snapshots.stats import Transfers
from taskmeter.text import bandwidth, count, duration, seconds, short_name, size
from taskmeter.views.tables.columns import Column
from taskmeter.views.tables.spread import Spread, spreads

#: What stands for the pairs that are not kept apart.
_OTHERS = "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What is known of all transfers in one unit.

    Parameters
    ----------
    what
        ``bytes``, ``seconds`` or ``bandwidth``.
    spread
        Its figures, one value a transfer.
    maximum
        The largest value.
    """

    what: str
    spread: Spread
    maximum: float

    def figure(self, number: float) -> str:
        """Return a number of this unit as the text of a cell."""
        return _UNITS[self.what](number)


_UNITS: Mapping[str, Callable[[float], str]] = {
    "bytes": size,
    "seconds": seconds,
    "bandwidth": bandwidth,
}


def moved(transfers: Transfers) -> tuple[Moved, ...]:
    """Return a row for bytes, for seconds and for bandwidth."""
    every = {what: getattr(transfers, what) for what in _UNITS}
    return tuple(
        Moved(what=what, spread=spread, maximum=distribution.maximum)
        for (what, distribution), spread in zip(
            every.items(), spreads(tuple(every.values())), strict=True
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """The transfers from one worker to another.

    Parameters
    ----------
    source, destination
        Addresses of the two.
    bytes, seconds, bandwidth
        Figures of each, one value a transfer.
    """

    source: str
    destination: str
    bytes: Spread
    seconds: Spread
    bandwidth: Spread


def pair_rows(transfers: Transfers) -> tuple[PairRow, ...]:
    """Return a row for each pair of workers, those between which most time was spent first."""
    every = transfers.pairs.values()
    rows = [
        PairRow(
            source=source, destination=destination, bytes=sizes, seconds=times, bandwidth=speeds
        )
        for (source, destination), sizes, times, speeds in zip(
            transfers.pairs,
            spreads([pair.bytes for pair in every]),
            spreads([pair.seconds for pair in every]),
            spreads([pair.bandwidth for pair in every]),
            strict=True,
        )
    ]
    return tuple(sorted(rows, key=lambda r: (-r.seconds.total, r.source, r.destination)))


def _worker(address: str) -> str:
    return _OTHERS if address == OTHER else short_name(address)


#: The columns of `Moved`, from left to right.
MOVED_COLUMNS: tuple[Column[Moved], ...] = (
    Column(title="all transfers", cell=lambda r: r.what, rank=0, text=True),
    Column(title="count", cell=lambda r: count(r.spread.count), rank=1),
    Column(
        title="total",
        # bandwidths do not add up
        cell=lambda r: "" if r.what == "bandwidth" else r.figure(r.spread.total),
        rank=0,
    ),
    Column(title="mean", cell=lambda r: r.figure(r.spread.mean), rank=2),
    Column(title="std", cell=lambda r: r.figure(r.spread.std), rank=9),
    Column(title="p5", cell=lambda r: r.figure(r.spread.p5), rank=8),
    Column(title="p50", cell=lambda r: r.figure(r.spread.p50), rank=3),
    Column(title="p95", cell=lambda r: r.figure(r.spread.p95), rank=4),
    Column(title="p99", cell=lambda r: r.figure(r.spread.p99), rank=5),
    Column(title="max", cell=lambda r: r.figure(r.maximum), rank=6),
)

#: The columns of `PairRow`, from left to right.
PAIR_COLUMNS: tuple[Column[PairRow], ...] = (
    Column(title="from", cell=lambda r: _worker(r.source), rank=0, text=True),
    Column(title="to", cell=lambda r: _worker(r.destination), rank=0, text=True),
    Column(title="count", cell=lambda r: count(r.seconds.count), rank=1),
    Column(title="bytes", cell=lambda r: size(r.bytes.total), rank=2),
    Column(title="seconds", cell=lambda r: duration(r.seconds.total), rank=3),
    Column(title="bandwidth p5", cell=lambda r: bandwidth(r.bandwidth.p5), rank=5),
    Column(title="bandwidth p50", cell=lambda r: bandwidth(r.bandwidth.p50), rank=4),
)
