"""Which bandwidth Dask is to reckon with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskmeter.estimation.transfer_model import TransferModel
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
class WriteBandwidth:
    """Set ``scheduler.bandwidth``."""

    bytes_per_second: float
    because: str


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
