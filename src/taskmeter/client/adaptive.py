"""MeterAdaptive: as many workers as the bound on the remaining work asks for, and no flapping."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

from distributed.deploy import Adaptive
from distributed.protocol import pickle

from taskmeter.client.api import installed
from taskmeter.policies.hysteresis import ScaleTo, Steady
from taskmeter.policies.scaling import Need
from taskmeter.protocol.names import NEED_OP

logger = logging.getLogger("taskmeter")


class MeterAdaptive(Adaptive):
    """Scale a cluster by what taskmeter knows of the remaining work.

    In place of Dask's own estimate, which samples 100 tasks and takes a prefix for unknown as soon
    as one of its tasks runs for long, it counts all tasks, reckons with what is left of those that
    run, and with how much the sum may vary by chance. The target moves only by what chance does not
    explain; each change is logged with its reason, here and as an event of the topic "taskmeter".

    Where the scheduler has no taskmeter it does what `distributed.Adaptive` does.

    Examples
    --------
    >>> import taskmeter
    >>> from distributed import Client, LocalCluster
    >>> cluster = LocalCluster(n_workers=0, processes=False, dashboard_address=":0")
    >>> client = Client(cluster)
    >>> taskmeter.install(client)
    >>> adaptive = cluster.adapt(minimum=0, maximum=1, Adaptive=taskmeter.MeterAdaptive)
    >>> client.submit(sum, [1, 2]).result()
    3
    >>> client.close()
    >>> cluster.close()
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._steady = Steady()
        #: the target that was told of last; None before there was one
        self._told: int | None = None
        super().__init__(*args, **kwargs)

    async def target(self) -> int:
        """Return the number of workers there should be."""
        decision = await self._decide()
        if decision is None:
            found: int = await super().target()
            return found
        within = int(max(self.minimum, min(self.maximum, decision.workers)))
        if within != (len(self.plan) if self._told is None else self._told):
            await self._tell(ScaleTo(workers=within, because=decision.because))
        return decision.workers

    async def workers_to_close(self, target: int) -> list[str]:
        """Return workers to close, of which none runs anything: what they do would be lost."""
        found: list[str] = await self.scheduler.workers_to_close(
            # asked for a target, Dask closes busy workers, too
            minimum=target,
            key=pickle.dumps(self.worker_key) if self.worker_key else None,
            attribute="name",
            **self._workers_to_close_kwargs,
        )
        return found

    async def _decide(self) -> ScaleTo | None:
        try:
            # a scheduler that does not know a handler logs that, each time
            if not await installed(self):
                return None
            handler = getattr(self.scheduler, NEED_OP)
            answer = await handler(
                target_seconds=_seconds(self.target_duration),
                threads_per_worker=self._threads_per_worker(),
            )
            need = Need(**answer)
        except Exception as error:  # noqa: BLE001 (a scheduler with another taskmeter)
            logger.debug("taskmeter: scaling as Dask does, since there is no answer: %r", error)
            return None
        return self._steady.decide(need, workers=len(self.plan), now=monotonic())

    async def _tell(self, decision: ScaleTo) -> None:
        logger.info("taskmeter: scale to %s workers: %s", decision.workers, decision.because)
        self._told = decision.workers
        event = {
            "action": "scale-to",
            "workers": decision.workers,
            "because": decision.because,
        }
        try:
            await self.scheduler.log_event(topic="taskmeter", msg=event)
        except Exception as error:  # noqa: BLE001 (the event is for information)
            logger.debug("taskmeter: the event was not logged: %r", error)

    def _threads_per_worker(self) -> float | None:
        """Return the threads of a worker to be, as far as the cluster says."""
        spec = getattr(self.cluster, "new_spec", None) or {}
        options = spec.get("options", {}) if isinstance(spec, dict) else {}
        for name in ("nthreads", "threads", "cores"):
            value = options.get(name)
            if isinstance(value, int) and value > 0:
                return float(value)
        return None


def _seconds(duration: Any) -> float:
    total = getattr(duration, "total_seconds", None)
    return float(total()) if total is not None else float(duration)
