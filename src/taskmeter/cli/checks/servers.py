"""What Dask's servers say of themselves: versions, plugins, handlers, clocks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

#: A worker or a page that takes longer than this does not answer.
ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is installed where one Dask server runs; None where it did not say."""

    taskmeter: str | None = None
    distributed: str | None = None
    python: str | None = None

    @classmethod
    def of(cls, answer: Any) -> Environment:
        """Return what an answer to Dask's operation ``versions`` says."""
        packages = answer.get("packages", {}) if isinstance(answer, Mapping) else {}
        return cls(**{name: packages.get(name) for name in cls.__slots__})

    @property
    def text(self) -> str:
        """Return the versions that must be the same in a whole cluster."""
        python = ".".join((self.python or "?").split(".")[:3])
        return f"distributed {self.distributed or '?'}, Python {python}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerState:
    """What a function that ran on the scheduler saw there.

    Parameters
    ----------
    plugins, handlers
        Names of those that are registered.
    clock_delays
        ``{worker: seconds}`` by which the worker's clock is behind the scheduler's.
    """

    plugins: frozenset[str] = frozenset()
    handlers: frozenset[str] = frozenset()
    clock_delays: Mapping[str, float] = field(default_factory=dict)


async def environments(
    client: Client, workers: Sequence[str]
) -> tuple[Environment, dict[str, Environment]]:
    """Return what is installed on the scheduler, and on every worker.

    That is an operation of Dask's servers, so nothing has to be pickled or allowed. Each worker is
    asked for itself: one that hangs must not keep the others from answering.
    """
    packages = ["taskmeter"]

    async def ask(worker: str) -> Environment:
        question = client.scheduler.broadcast(
            msg={"op": "versions", "packages": packages}, workers=[worker], on_error="ignore"
        )
        try:
            answers = await asyncio.wait_for(question, ANSWER_SECONDS)
        except (asyncio.TimeoutError, OSError):
            answers = {}
        return Environment.of(answers.get(worker))

    scheduler = Environment.of(await client.scheduler.versions(packages=packages))
    return scheduler, dict(zip(workers, await asyncio.gather(*map(ask, workers)), strict=True))


def scheduler_state(client: Client, scheduler: Environment) -> SchedulerState | None:
    """Return what can be seen on the scheduler; None if it runs no function of this client's."""

    # A function inside a function is sent as code, so the scheduler need not have taskmeter; but
    # code can be read by the same Python only.
    def look(dask_scheduler: Any = None) -> dict[str, Any]:
        return {
            "plugins": frozenset(dask_scheduler.plugins),
            "handlers": frozenset(dask_scheduler.handlers),
            "clock_delays": {a: ws.time_delay for a, ws in dask_scheduler.workers.items()},
        }

    here = ".".join(map(str, sys.version_info[:2]))
    if not (scheduler.python or "").startswith(here + "."):
        return None
    try:
        return SchedulerState(**client.run_on_scheduler(look))
    except Exception:  # noqa: BLE001 (a scheduler may refuse to run functions, in whatever way)
        return None
