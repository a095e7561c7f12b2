"""What a worker executes: Dask's transitions made into the events of attempts."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator
from typing import Any

from distributed.metrics import time

from taskmeter.attempts.attempt import NO_THREAD, Key
from taskmeter.attempts.events import (
    COMPUTING,
    SECEDED,
    WAITING,
    Ended,
    Moved,
    Placed,
    Started,
    Wanted,
)
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.names import bounded
from taskmeter.plugins import dask_internals
from taskmeter.plugins.worker.recording import Recording
from taskmeter.plugins.worker.thread_numbers import ThreadNumbers
from taskmeter.plugins.worker.transitions import Meaning, meaning


class Execution:
    """Where an attempt in flight stands in Dask's own records."""

    __slots__ = (
        "annotations", "begun", "earlier", "executor", "hooked", "hooked_wall", "key", "outcome",
        "prefix", "run_id", "seceded", "span_id", "thread",
    )  # fmt: skip

    def __init__(self, task: Any, now: float) -> None:
        self.key: Key = task.key
        self.run_id: int = task.run_id
        self.prefix = bounded(task.prefix)
        self.executor = dask_internals.executor_of(task)
        #: when the hook was told, on the monotonic and on the wall clock
        self.hooked = now
        self.hooked_wall = time()
        #: startstops of earlier attempts
        self.earlier = len(task.startstops)
        #: the start of the code itself is known
        self.begun = False
        #: it has left the thread pool at some time
        self.seceded = False
        #: what it is for
        self.annotations = task.annotations
        self.span_id = dask_internals.span_id(task)
        #: number of the thread that runs it
        self.thread = NO_THREAD
        #: how it ended, once it has
        self.outcome = ""


class Executions:
    """The attempts in flight of a worker by key, of which Dask executes one at a time.

    Parameters
    ----------
    worker
        The worker.
    ledger
        Takes the events.
    recording
        Takes durations and waits.
    """

    def __init__(self, worker: Any, ledger: AttemptLedger, recording: Recording) -> None:
        self._worker = worker
        self._ledger = ledger
        self._recording = recording
        self._live: dict[Key, Execution] = {}
        self._numbers = ThreadNumbers()
        #: when threads were last looked at
        self.looked = 0.0
        #: {executor: when it was last seen to be done with an attempt}
        self._freed: dict[str, float] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._live

    def __getitem__(self, key: Key) -> Execution:
        return self._live[key]

    def get(self, key: Key) -> Execution | None:
        """Return the attempt in flight of a key; None if there is none."""
        return self._live.get(key)

    def items(self) -> ItemsView[Key, Execution]:
        """Return the attempts in flight by key, in the order they were started."""
        return self._live.items()

    @property
    def any_may_move(self) -> bool:
        """Whether an attempt in flight may get a thread, or rejoin, and nobody would tell."""
        return any(
            live.seceded or self._ledger.phase(key, live.run_id) == WAITING
            for key, live in self._live.items()
        )

    def got_thread_at(self, executor: str, now: float) -> float:
        """Return when an attempt that waited for a thread of an executor got it, before `now`."""
        return min(now, max(self.looked, self._freed.get(executor, 0.0)))

    def take_over(self, now: float) -> None:
        """Begin with what is in flight already, which is counted from now on."""
        wall = time()
        for task in dask_internals.running_tasks(self._worker):
            began = dask_internals.code_start(task)
            age = 0.0 if began is None else max(0.0, wall - began)
            live = self._live[task.key] = Execution(task, now)
            live.begun = True
            self._ledger.handle(
                Started(
                    key=live.key,
                    run_id=live.run_id,
                    prefix=live.prefix,
                    at=now - age,
                    metered_from=now,
                )
            )
            if dask_internals.has_seceded(self._worker, task):
                self._secede(live, now)

    def note(self, key: Key, start: str, finish: str, now: float) -> Execution | None:
        """Take in a transition; return the attempt that it ended, for `end`."""
        task = dask_internals.worker_task(self._worker, key)
        if task is None:
            return self._ending(key, "cancelled")
        event = meaning(
            start=start,
            finish=finish,
            state=task.state,
            running=dask_internals.holds_slot_or_seceded(self._worker, task),
            seceded=dask_internals.has_seceded(self._worker, task),
        )
        if event == "start":
            if key in self._live:
                ended = self._ending(key, "cancelled")
                if ended is not None:
                    self.end(ended, now)
            self._start(task, now)
            return None
        return self._change(key, event, now)

    def _start(self, task: Any, now: float) -> None:
        live = self._live[task.key] = Execution(task, now)
        self._ledger.handle(Started(key=live.key, run_id=live.run_id, prefix=live.prefix, at=now))
        self._recording.started(live.key, live.prefix, now)

    def _change(self, key: Key, event: Meaning | None, now: float) -> Execution | None:
        live = self._live.get(key)
        if live is None or event is None:
            return None
        if event == "secede":
            self._secede(live, now)
        elif event in {"cancel", "resume"}:
            wanted = event == "resume"
            self._ledger.handle(Wanted(key=key, run_id=live.run_id, wanted=wanted))
        else:
            return self._ending(key, event)
        return None

    def _secede(self, live: Execution, now: float) -> None:
        self._ledger.handle(Moved(key=live.key, run_id=live.run_id, phase=SECEDED, at=now))
        live.seceded = True

    def _ending(self, key: Key, outcome: str) -> Execution | None:
        live = self._live.get(key)
        if live is not None:
            live.outcome = outcome
        return live

    def unseen_ends(self) -> Iterator[Execution]:
        """Yield the attempts whose end no transition told, such as a key scattered meanwhile."""
        for key in tuple(self._live):
            task = dask_internals.worker_task(self._worker, key)
            if task is None or not dask_internals.holds_slot_or_seceded(self._worker, task):
                kept = task is not None and task.state == "memory"
                ended = self._ending(key, "ok" if kept else "cancelled")
                if ended is not None:
                    yield ended

    def place(self, live: Execution, ident: int) -> None:
        """Note which thread runs an attempt."""
        live.thread = self._numbers.number(ident)
        self._ledger.handle(Placed(key=live.key, run_id=live.run_id, thread=live.thread))

    def end(self, ended: Execution, now: float) -> None:
        """Note that an attempt's code stopped; as Dask measured it in its thread, if it did."""
        del self._live[ended.key]
        if ended.thread == NO_THREAD:
            ident = dask_internals.thread_of_result(self._worker, ended.key)
            if ident is not None:
                ended.thread = self._numbers.number(ident)
        if self._ledger.phase(ended.key, ended.run_id) == WAITING:
            at = self.got_thread_at(ended.executor, now)
            self._ledger.handle(Moved(key=ended.key, run_id=ended.run_id, phase=COMPUTING, at=at))
        self._freed[ended.executor] = now
        task = dask_internals.worker_task(self._worker, ended.key)
        span = None
        if task is not None:
            span = dask_internals.compute_span(task.startstops, skip=ended.earlier)
        began = seconds = None
        if span is not None:
            began_wall, seconds = span
            began = min(now, now - (time() - began_wall))
            self._freed[ended.executor] = min(now, max(ended.hooked, began + seconds))
        told = self._ledger.is_told(ended.key, ended.run_id)
        length = self._ledger.handle(
            Ended(
                key=ended.key,
                run_id=ended.run_id,
                outcome=ended.outcome,
                at=now,
                began=began,
                seconds=seconds,
            )
        )
        if length is not None:
            self._recording.ended(
                task,
                ended.outcome,
                key=ended.key,
                prefix=ended.prefix,
                run_id=ended.run_id,
                start=now - length if began is None else began,
                stop=now,
                seconds=length,
                earlier=ended.earlier,
                thread=ended.thread,
                seceded=ended.seceded,
                told=told,
                span_id=ended.span_id,
                annotations=ended.annotations,
                compute_seconds=self._ledger.ended_compute,
            )
