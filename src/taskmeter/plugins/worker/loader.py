"""The part of taskmeter that the scheduler sends to workers, which may not have it installed."""

from __future__ import annotations

from typing import Any

from distributed.protocol.pickle import dumps


def make_loader() -> bytes:
    """Return a pickled worker plugin that sets up the meter where taskmeter can be imported.

    A plugin that cannot be unpickled stops a worker from starting. So the class is a local one,
    which is pickled by value and needs nothing but distributed on the other side; a worker without
    taskmeter logs one line and works on.
    """
    from distributed.diagnostics.plugin import WorkerPlugin  # noqa: PLC0415 (pickled by value)

    class TaskmeterLoader(WorkerPlugin):
        name = "taskmeter-loader"
        idempotent = True

        async def setup(self, worker: Any) -> None:
            import logging  # noqa: PLC0415 (pickled by value)

            try:
                from taskmeter.plugins.worker.plugin import (  # noqa: PLC0415 (may be missing)
                    WorkerMeter,
                )

                await worker.plugin_add(plugin=WorkerMeter(reporting=True), name="taskmeter")
            except Exception as error:  # noqa: BLE001 (a worker must start without us)
                logging.getLogger("taskmeter").warning(
                    "This worker works without taskmeter, so its figures are estimates: %r. "
                    "Install taskmeter in the worker's environment.",
                    error,
                )

        async def teardown(self, worker: Any) -> None:
            # A worker that closes removes all its plugins by itself.
            if "taskmeter" in worker.plugins and worker.status.name == "running":
                await worker.plugin_remove(name="taskmeter")

    pickled: bytes = dumps(TaskmeterLoader())
    return pickled
