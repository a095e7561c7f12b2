"""Whether moving a task's data pays, and which bandwidth Dask is to reckon with."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import Final

from taskmeter.estimation.transfer_model import Transfer, TransferModel
from taskmeter.text import bandwidth as speed
from taskmeter.text import duration

#: fewer transfers tell too little to write
FEWEST: Final = 20
#: a write changes the value by this factor at most
MOST_CHANGE: Final = 2.0
#: from a floppy disk to memory, in bytes per second
SLOWEST: Final = 1e3
FASTEST: Final = 1e12
#: what is nearer than this to Dask's value is not written
_SAME: Final = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Steal:
    """Whether another worker should take a task over."""

    pays: bool
    #: how much earlier the task is done, in seconds; negative: later
    gain_seconds: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBandwidth:
    """Set ``scheduler.bandwidth``."""

    bytes_per_second: float
    because: str


def steal(
    *, compute_seconds: float, transfer: Transfer, victim_seconds: float, thief_seconds: float = 0.0
) -> Steal:
    """Say whether moving a task from one worker to another pays.

    It does when the task is done earlier there, by more than the prediction of the transfer is
    unsure of, and when moving takes no longer than computing: else the thief, whose threads wait
    for the data, gets less done than the victim that already has it.

    Parameters
    ----------
    compute_seconds
        What the task takes.
    transfer
        Of the bytes that the thief does not have.
    victim_seconds, thief_seconds
        Until each could begin with it.
    """
    moved = transfer.seconds
    # the prediction's error without a single transfer is not known
    unsure = transfer.standard_error if isfinite(transfer.standard_error) else moved
    gain = victim_seconds - thief_seconds - moved
    what = f"moving takes {duration(moved)}, computing {duration(compute_seconds)}"
    if not isfinite(gain) or not isfinite(compute_seconds):
        return Steal(pays=False, gain_seconds=-inf, because="the figures are not finite numbers")
    if moved > compute_seconds:
        return Steal(pays=False, gain_seconds=gain, because=what)
    if gain <= unsure:
        late = f"the wait is {duration(victim_seconds)} here and {duration(thief_seconds)} there"
        return Steal(pays=False, gain_seconds=gain, because=f"{what}, and {late}")
    return Steal(
        pays=True, gain_seconds=gain, because=f"{what}, and it is done {duration(gain)} earlier"
    )


def write_bandwidth(
    model: TransferModel, *, dask_bandwidth: float, last: float | None
) -> WriteBandwidth | None:
    """Return what to write into ``scheduler.bandwidth``; None to leave it alone.

    Parameters
    ----------
    model
        Of the cluster.
    dask_bandwidth
        The present value, in bytes per second.
    last
        What was written last, None before the first time.
    """
    wanted = model.bandwidth
    if not model.transfers >= FEWEST or not SLOWEST <= wanted <= FASTEST:
        return None
    value = wanted
    if last is not None and SLOWEST <= last <= FASTEST:
        value = min(max(wanted, last / MOST_CHANGE), last * MOST_CHANGE)
    if abs(value - dask_bandwidth) <= _SAME * value:
        return None
    held = "" if value == wanted else f", at most {MOST_CHANGE:g} times the last value a write"
    return WriteBandwidth(
        bytes_per_second=value,
        because=(
            f"{model.transfers:.0f} transfers say {speed(wanted)} and a latency of "
            f"{duration(model.latency)}{held}; Dask had {speed(dask_bandwidth)}"
        ),
    )
