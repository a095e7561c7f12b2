"""The tables of transfers: how much went between workers, how long it took, and how fast it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from taskmeter.attempts.attempt import OTHER
from taskmeter.snapshots.stats import Transfers
from taskmeter.text import bandwidth, duration, size
from taskmeter.views.tables.column import Column, counts, seconds
from taskmeter.views.tables.spread import Spread, spreads

#: What stands for the pairs that are not kept apart.
_OTHERS = "(others)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What is known of all transfers in one unit.

    Parameters
    ----------
    quantity
        ``bytes``, ``seconds`` or ``bandwidth``.
    spread
        Its figures, one value a transfer.
    maximum
        The largest value.
    """

    quantity: str
    spread: Spread
    maximum: float

    def figure(self, number: float) -> str:
        """Return a number of this unit as the text of a cell."""
        return "" if math.isnan(number) else _UNITS[self.quantity](number)


_UNITS: Mapping[str, Callable[[float], str]] = {
    "bytes": size,
    "seconds": duration,
    "bandwidth": bandwidth,
}


def moved(transfers: Transfers) -> tuple[Moved, ...]:
    """Return a row for bytes, for seconds and for bandwidth."""
    every = {quantity: getattr(transfers, quantity) for quantity in _UNITS}
    return tuple(
        Moved(quantity=quantity, spread=spread, maximum=distribution.maximum)
        for (quantity, distribution), spread in zip(
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
    return _OTHERS if address == OTHER else address


def _moved(title: str, read: Callable[[Moved], float], rank: int) -> Column[Moved]:
    # each row has another unit
    return Column(title=title, value=lambda r: r.figure(read(r)), rank=rank, right=True)


#: The columns of `Moved`, from left to right.
MOVED_COLUMNS: tuple[Column[Moved], ...] = (
    Column(title="all transfers", value=lambda r: r.quantity, rank=0, always=True),
    counts("count", "", lambda r: r.spread.count, 1),
    # bandwidths do not add up
    _moved("total", lambda r: math.nan if r.quantity == "bandwidth" else r.spread.total, 0),
    _moved("mean", lambda r: r.spread.mean, 2),
    _moved("std", lambda r: r.spread.std, 9),
    _moved("p5", lambda r: r.spread.p5, 8),
    _moved("p50", lambda r: r.spread.p50, 3),
    _moved("p95", lambda r: r.spread.p95, 4),
    _moved("p99", lambda r: r.spread.p99, 5),
    _moved("max", lambda r: r.maximum, 6),
)

#: The columns of `PairRow`, from left to right.
PAIR_COLUMNS: tuple[Column[PairRow], ...] = (
    Column(title="from", hint="The worker that sent.", value=lambda r: _worker(r.source), rank=0),
    Column(
        title="to", hint="The worker that received.", value=lambda r: _worker(r.destination), rank=0
    ),
    counts("count", "Transfers.", lambda r: r.seconds.count, 1),
    Column(
        title="bytes",
        hint="All that was sent.",
        value=lambda r: r.bytes.total,
        write=size,
        rank=2,
    ),
    seconds("seconds", "The time of all transfers, added up.", lambda r: r.seconds.total, 3),
    Column(
        title="bandwidth p5",
        hint="5 of 100 transfers were slower.",
        value=lambda r: r.bandwidth.p5,
        write=bandwidth,
        rank=5,
    ),
    Column(
        title="bandwidth p50",
        hint="Half of them were slower.",
        value=lambda r: r.bandwidth.p50,
        write=bandwidth,
        rank=4,
    ),
)
