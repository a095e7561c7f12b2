"""The tasks of Dask's local schedulers: what the callbacks and the tasks told, made into events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import psutil

from taskmeter.attempts.events import CpuRead, Ended, Placed, Started, Wanted
from taskmeter.attempts.names import bounded
from taskmeter.cluster.account import ClusterAccount
from taskmeter.config import Settings
from taskmeter.errors import count_error
from taskmeter.plugins import dask_internals
from taskmeter.plugins.local.callbacks import (
    SYNCHRONOUS,
    Compute,
    ComputeFinished,
    ComputeStarted,
    GraphKnown,
    Submitted,
    Taken,
)
from taskmeter.plugins.local.forecast import LocalForecast
from taskmeter.plugins.local.pool import Pool
from taskmeter.plugins.local.process_files import process_cpu
from taskmeter.plugins.local.timed_task import CodeEnded, CodeStarted
from taskmeter.plugins.worker.cpu import STILL_SHARE, innermost_frame, thread_clock
from taskmeter.plugins.worker.plugin import FRAME_AFTER


class _Graph:
    """A graph that Dask runs."""

    __slots__ = ("pending", "pool", "preparing")

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        #: nothing was handed to the pool yet
        self.preparing = True
        #: tasks that were, and whose result Dask has not taken in
        self.pending = 0


class _Task:
    """A task that was handed to a pool, and has not ended."""

    __slots__ = (
        "code", "compute", "cpu", "key", "looked", "number", "pool",
        "submitted", "told",
    )  # fmt: skip

    def __init__(self, event: Submitted, pool: Pool) -> None:
        self.number = event.number
        self.key = event.key
        self.compute = event.compute
        self.pool = pool
        self.submitted = event.at
        #: where its code runs, once it does
        self.code: CodeStarted | None = None
        #: CPU seconds as of the last look
        self.cpu = self.looked = 0.0
        #: the ledger knows of it
        self.told = False


class LocalTasks:
    """Keeps the pools and their ledgers.

    Parameters
    ----------
    account
        Each pool is a worker of it.
    forecast
        Learns from what ends.
    settings
        Limits.
    errors
        ``{where: times}``, which errors are counted in.
    """

    def __init__(
        self,
        account: ClusterAccount,
        forecast: LocalForecast,
        settings: Settings,
        *,
        errors: dict[str, int],
    ) -> None:
        self._account = account
        self._forecast = forecast
        self._settings = settings
        self._errors = errors
        self._process = os.getpid()
        self._clock = thread_clock()
        #: {name: pool}
        self.pools: dict[str, Pool] = {}
        #: {number of a compute: its graph}
        self._graphs: dict[int, _Graph] = {}
        #: {number: task}
        self._tasks: dict[int, _Task] = {}
        #: the number of the latest task
        self.latest = 0
        #: the most threads there were at a time
        self.most_threads = 0
        self._handlers: dict[type, Callable[[Any], None]] = {
            ComputeStarted: self._start_compute,
            GraphKnown: forecast.add_graph,
            Submitted: self._submit,
            CodeStarted: self._start,
            CodeEnded: self._end,
            Taken: self._take,
            ComputeFinished: self._finish_compute,
        }

    def handle(self, events: Iterable[Any]) -> None:
        """Take in what happened, in its order."""
        handlers = self._handlers
        for event in events:
            try:
                handlers[type(event)](event)
            except Exception:  # noqa: BLE001, PERF203 (our bug costs one event, not the figures)
                count_error(self._errors, f"local {type(event).__name__}")

    def tell(self, now: float) -> None:
        """Look at what runs, and tell the account of everything."""
        self._look(now)
        for pool in self.pools.values():
            self._learn(pool, pool.tell(now).samples.completions, now)

    def _note(self, pool: Pool, at: float) -> None:
        """Note what a pool's threads do from now on."""
        message = pool.note(at)
        if message is not None:
            self.most_threads = max(self.most_threads, self._account.nthreads)
            self._learn(pool, message.samples.completions, at)
            if not pool.active:
                # Dask may have done with it
                pool.executor = None

    def _learn(self, pool: Pool, completions: Iterable[Any], at: float) -> None:
        self._forecast.take(pool.address, completions, at)

    # Graphs

    def _start_compute(self, event: ComputeStarted) -> None:
        pool = self._pool(event.compute, event.at)
        self._graphs[event.compute.number] = _Graph(pool)
        pool.computes += 1
        pool.preparing += 1
        self._note(pool, event.at)

    def _pool(self, compute: Compute, at: float) -> Pool:
        """Return the pool of an executor: its own, one at rest of the same kind, or a new one."""
        executor, address = compute.executor, compute.scheduler
        for pool in self.pools.values():
            if pool.executor is executor is not None:
                return pool
        number = 1
        while address in self.pools:
            pool = self.pools[address]
            if not pool.active:
                pool.executor, pool.nthreads = executor, compute.nthreads
                return pool
            number += 1
            address = f"{compute.scheduler}-{number}"
        pool = self.pools[address] = Pool(
            address,
            executor,
            compute.nthreads,
            account=self._account,
            settings=self._settings,
            at=at,
        )
        return pool

    def _finish_compute(self, event: ComputeFinished) -> None:
        number = event.compute.number
        self._forecast.remove_graph(number)
        graph = self._graphs.pop(number)
        pool = graph.pool
        pool.computes -= 1
        pool.preparing -= graph.preparing
        pool.pending -= graph.pending
        if graph.pending:
            self._give_up(event.compute)
        self._note(pool, event.at)

    def _give_up(self, compute: Compute) -> None:
        """Note that nobody waits for what is left of a graph; it goes on all the same."""
        for task in [
            task for task in self._tasks.values() if task.compute.number == compute.number
        ]:
            if task.code is not None:
                self._orphan(task)
            elif compute.scheduler == SYNCHRONOUS:
                # what has not begun never will
                del self._tasks[task.number]

    # Tasks

    def _submit(self, event: Submitted) -> None:
        graph = self._graphs[event.compute.number]
        pool = graph.pool
        self.latest = event.number
        self._tasks[event.number] = _Task(event, pool)
        if graph.preparing:
            graph.preparing = False
            pool.preparing -= 1
        graph.pending += 1
        pool.pending += 1
        self._note(pool, event.at)

    def _take(self, event: Taken) -> None:
        graph = self._graphs[event.compute.number]
        graph.pending -= 1
        graph.pool.pending -= 1
        self._note(graph.pool, event.at)

    def _start(self, event: CodeStarted) -> None:
        task = self._tasks.get(event.number)
        if task is not None:
            task.code, task.looked = event, event.at
            if task.compute.number not in self._graphs:
                self._orphan(task)
                self._note(task.pool, event.at)

    def _admit(self, task: _Task, code: CodeStarted) -> None:
        """Tell the ledger of a task that runs; of one that is short, it hears at the end."""
        if not task.told:
            task.told = True
            task.pool.ledger.handle(
                Started(
                    key=task.key,
                    run_id=task.number,
                    prefix=bounded(dask_internals.prefix_of(task.key)),
                    at=code.at,
                ),
                Placed(key=task.key, run_id=task.number, thread=task.pool.number(code)),
            )
            if task.compute.number not in self._graphs:
                self._unwanted(task)

    def _orphan(self, task: _Task) -> None:
        task.pool.orphans += 1
        if task.told:
            self._unwanted(task)

    @staticmethod
    def _unwanted(task: _Task) -> None:
        task.pool.ledger.handle(Wanted(key=task.key, run_id=task.number, wanted=False))

    def _end(self, event: CodeEnded) -> None:
        task = self._tasks.pop(event.number, None)
        if task is None or task.code is None:
            return
        wanted = task.compute.number in self._graphs
        outcome = "cancelled"
        if wanted:
            outcome = "failed" if event.exception else "ok"
        prefix = bounded(dask_internals.prefix_of(task.key))
        self._close(task, prefix, outcome, event.at, event.cpu_seconds)
        task.pool.record(
            task.key, prefix, outcome, task.code, event, submitted=task.submitted, told=task.told
        )
        if wanted:
            self._forecast.end(task.compute.number, task.key)
        else:
            task.pool.orphans -= 1
            self._note(task.pool, event.at)

    @staticmethod
    def _close(task: _Task, prefix: str, outcome: str, at: float, cpu: float) -> None:
        ledger, code = task.pool.ledger, task.code
        if task.told:
            key, run_id = task.key, task.number
            ledger.handle(
                CpuRead(key=key, run_id=run_id, seconds=cpu, at=at, advanced=True),
                Ended(key=key, run_id=run_id, outcome=outcome, at=at),
            )
        elif code is not None:
            ledger.count(prefix, outcome, at - code.at, cpu)

    # What runs

    def _look(self, now: float) -> None:
        """Read the CPU clocks of what runs; what ran in a process that is no more is lost."""
        for task in list(self._tasks.values()):
            code = task.code
            if code is None:
                continue
            self._admit(task, code)
            if code.process == self._process:
                cpu = self._thread_cpu(code)
            elif psutil.pid_exists(code.process):
                cpu = process_cpu(code.process)
            else:
                self._lose(task, now)
                continue
            if cpu is not None:
                self._read_cpu(task, code, max(0.0, cpu - code.cpu), now)

    def _thread_cpu(self, code: CodeStarted) -> float | None:
        try:
            return None if self._clock is None else self._clock(code.native_thread)
        except OSError:
            return None

    def _read_cpu(self, task: _Task, code: CodeStarted, seconds: float, now: float) -> None:
        advanced = seconds - task.cpu > STILL_SHARE * (now - task.looked)
        if advanced:
            task.cpu, task.looked = seconds, now
        still = not advanced and now - code.at >= FRAME_AFTER and code.process == self._process
        task.pool.ledger.handle(
            CpuRead(
                key=task.key,
                run_id=task.number,
                seconds=seconds,
                at=now,
                advanced=advanced,
                frame=innermost_frame(code.thread) if still else "",
            )
        )

    def _lose(self, task: _Task, now: float) -> None:
        del self._tasks[task.number]
        self._close(task, "", "lost", now, task.cpu)
        if task.compute.number not in self._graphs:
            task.pool.orphans -= 1
            self._note(task.pool, now)
