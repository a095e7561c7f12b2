"""One pool of threads or processes, told of to the account as a worker is."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeAlias

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.exception_text import MOST_MESSAGE, traceback_end
from taskmeter.attempts.idle_reasons import EMPTY, HELD
from taskmeter.attempts.ledger import AttemptLedger
from taskmeter.attempts.names import bounded
from taskmeter.attempts.time_integral import Integral
from taskmeter.cluster.account import ClusterAccount
from taskmeter.config import Settings
from taskmeter.plugins import dask_internals
from taskmeter.plugins.local.timed_task import CodeEnded, CodeStarted
from taskmeter.protocol.message import Failed, Message
from taskmeter.protocol.message_writer import MessageWriter
from taskmeter.protocol.sample_buffers import SampleBuffers
from taskmeter.protocol.series import ACTIVITY, EXECUTE, ON_WORKER, WAIT, Series
from taskmeter.snapshots.stats import THREAD_CPU, THREAD_NONCPU
from taskmeter.text import shorten
from taskmeter.version import __version__

Record: TypeAlias = Callable[[float], None]


class Pool:
    """A pool: it has threads as long as a graph, or what is left of one, runs on it.

    A thread is held by a task from when that is handed to the pool until Dask has its result. What
    of that is not the task's code is Dask's own work: overhead.

    Parameters
    ----------
    address
        Its name.
    executor
        Dask's object, of which there is one for each pool.
    nthreads
        Tasks that run at a time.
    account
        Is told.
    settings
        Limits.
    at
        The beginning.
    """

    def __init__(
        self,
        address: str,
        executor: Any,
        nthreads: int,
        *,
        account: ClusterAccount,
        settings: Settings,
        at: float,
    ) -> None:
        self.address = address
        self.executor = executor
        self.nthreads = nthreads
        self.ledger = AttemptLedger(max_prefixes=settings.tracked_prefixes)
        self.samples = SampleBuffers(limit=settings.tracked_series)
        self._account = account
        self._threads = Integral(at)
        self._writer = MessageWriter(
            uuid.uuid4().hex, self.ledger, at, threads=self._threads, version=__version__
        )
        #: {prefix: what records how long its tasks waited, and their CPU time and the rest}
        self._recorders: dict[str, tuple[Record, Record, Record]] = {}
        #: {(process, thread): its number here}
        self._numbers: dict[tuple[int, int], int] = {}
        #: graphs that run, and those of them that Dask prepares
        self.computes = self.preparing = 0
        #: tasks that hold a thread, or will: of these graphs, and of those that were given up
        self.pending = self.orphans = 0
        #: threads there are, and how many of them are held
        self._size = self._held = 0
        account.join(address, 0, at)

    @property
    def active(self) -> bool:
        """Whether anything runs on it."""
        return bool(self.computes or self.orphans)

    def note(self, at: float) -> Message | None:
        """Note what its threads do from now on; return the message if their number changed."""
        size = self.nthreads if self.active else 0
        wanted = size if self.preparing else self.pending + self.orphans
        held = min(size, wanted)
        message = None
        if size != self._size:
            message = self.tell(at)
            self._account.resize(self.address, size, at)
            # others may run here the next time
            self._numbers.clear()
        elif held == self._held:
            return None
        self._size, self._held = size, held
        self._threads.change({HELD: held, EMPTY: size - held}, at)
        return message

    def number(self, code: CodeStarted) -> int:
        """Return the small number of the thread that runs some code."""
        return self._numbers.setdefault((code.process, code.thread), len(self._numbers))

    def record(
        self,
        key: Key,
        prefix: str,
        outcome: str,
        started: CodeStarted,
        ended: CodeEnded,
        *,
        submitted: float,
        told: bool,
    ) -> None:
        """Record the durations of an attempt that ended.

        Parameters
        ----------
        key, prefix
            Its task.
        outcome
            One of `OUTCOMES`.
        started, ended
            What it told.
        submitted
            When it was handed to the pool.
        told
            The account was told of it while it ran.
        """
        recorders = self._recorders.get(prefix)
        if recorders is None:
            recorders = self._recorders[prefix] = (
                self.samples.recorder(Series(WAIT, prefix, ON_WORKER)),
                self.samples.recorder(Series(ACTIVITY, prefix, THREAD_CPU, EXECUTE)),
                self.samples.recorder(Series(ACTIVITY, prefix, THREAD_NONCPU, EXECUTE)),
            )
        wait, on_cpu, off_cpu = recorders
        wait(started.at - submitted)
        seconds = ended.at - started.at
        self.samples.attempt(
            key=key,
            run_id=ended.number,
            prefix=prefix,
            group=bounded(dask_internals.group_of(key)),
            start=started.at,
            stop=ended.at,
            seconds=seconds,
            outcome=outcome,
            thread=self.number(started),
            told=told,
        )
        if outcome == "failed":
            self.samples.failures.add(
                Failed(
                    prefix=prefix,
                    exception=bounded(ended.exception),
                    message=shorten(ended.message, MOST_MESSAGE),
                    traceback=traceback_end(ended.traceback),
                    key=bounded(str(key)),
                ),
                ended.at,
            )
        elif outcome == "ok":
            cpu = min(ended.cpu_seconds, seconds)
            on_cpu(cpu)
            off_cpu(seconds - cpu)

    def tell(self, now: float) -> Message:
        """Tell the account what changed since the last time."""
        message = self._writer.write(now, self.samples.take(now))
        self._account.apply(self.address, message, now)
        return message
