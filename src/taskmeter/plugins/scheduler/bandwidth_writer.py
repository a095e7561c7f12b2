"""Learns what moving bytes between workers takes, and tells Dask where that is wanted."""

from __future__ import annotations

from typing import Any

from taskmeter.errors import count_error, logger
from taskmeter.estimation.transfer_model import TransferModel, Transfers
from taskmeter.policies.transfers import write_bandwidth
from taskmeter.protocol.message import Samples

#: Of one message so many transfers are looked at; one takes some 5 us.
MOST_TRANSFERS = 100

#: The model is fitted anew after so many seconds, when somebody reads it.
FRESH_SECONDS = 1.0


class BandwidthWriter:
    """Keeps a model of transfers.

    Parameters
    ----------
    scheduler
        Whose bandwidth is kept.
    write
        Keep it; otherwise only learn.
    errors
        ``{where: times}``, which errors are counted in.
    """

    def __init__(self, scheduler: Any, *, write: bool, errors: dict[str, int]) -> None:
        self.transfers = Transfers()
        self.write = write
        self._scheduler = scheduler
        self._errors = errors
        self._count = 0
        #: the bandwidth that was written last
        self._last: float | None = None
        self._fitted: tuple[float, TransferModel | None] = (-FRESH_SECONDS, None)

    def take(self, samples: Samples) -> None:
        """Learn from the transfers to a worker."""
        for _, size, seconds in samples.transfers(MOST_TRANSFERS):
            self.transfers.add(size, seconds)
            self._count += 1

    def model(self, now: float) -> TransferModel | None:
        """Return the model of the whole cluster; None before there was a transfer."""
        at, found = self._fitted
        if now - at >= FRESH_SECONDS and self._count:
            found = self.transfers.model()
            self._fitted = now, found
        return found

    def after_message(self, now: float) -> None:
        """Write the bandwidth, which Dask averages anew at each heartbeat."""
        if not self.write:
            return
        try:
            model = self.model(now)
            if model is None:
                return
            decision = write_bandwidth(
                model, dask_bandwidth=self._scheduler.bandwidth, last=self._last
            )
            if decision is not None:
                self._last = self._scheduler.bandwidth = decision.bytes_per_second
        except Exception:  # noqa: BLE001 (Dask goes on)
            self.write = False
            count_error(self._errors, "bandwidth")
            logger.warning("taskmeter: keeps the bandwidth no more; Dask goes on with its own")
