"""What ``dask scheduler --preload taskmeter.preload`` runs."""

from __future__ import annotations

import logging
from typing import Any

from distributed import Scheduler

from taskmeter.plugins.scheduler.plugin import SchedulerMeter

logger = logging.getLogger("taskmeter")


async def dask_setup(server: Any) -> None:
    """Install taskmeter on the scheduler; workers get their part from it."""
    if not isinstance(server, Scheduler):
        logger.info("taskmeter is installed on the scheduler; a worker needs no preload.")
        return
    await server.register_scheduler_plugin(SchedulerMeter(), idempotent=True)
