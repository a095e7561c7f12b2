"""Dask's documented but internal attributes that taskmeter reads, all in one place.

Each function says what it needs. Where an attribute is missing (another release of distributed),
the function gives the answer that makes its caller do without, and nothing breaks.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import dask.config
from dask.utils import key_split, parse_timedelta
from distributed import scheduler as dask_scheduler
from distributed.metrics import time
from distributed.protocol import pickle
from distributed.utils import key_split_group

from taskmeter.attempts.attempt import Key
from taskmeter.attempts.idle_reasons import thread_states

logger = logging.getLogger("taskmeter")

P = ParamSpec("P")
T = TypeVar("T")


# Worker


def worker_task(worker: Any, key: Key) -> Any | None:
    """Return the worker's TaskState for a key (``Worker.state.tasks``), or None."""
    return worker.state.tasks.get(key)


def holds_slot_or_seceded(worker: Any, task: Any) -> bool:
    """Return whether a task's code is running (``WorkerState.executing``, ``.long_running``).

    Cancelled tasks whose thread runs on are in these sets; tasks that are done are not.
    """
    return task in worker.state.executing or task in worker.state.long_running


def has_seceded(worker: Any, task: Any) -> bool:
    """Return whether a running task has left the thread pool (``WorkerState.long_running``)."""
    return task in worker.state.long_running


def running_tasks(worker: Any) -> Iterator[Any]:
    """Iterate over the tasks whose code is running."""
    yield from tuple(worker.state.executing)
    yield from tuple(worker.state.long_running)


def code_start(task: Any) -> float | None:
    """Return the wall-clock time at which a task's code began (``TaskState.start_time``)."""
    return getattr(task, "start_time", None)


def compute_span(startstops: Any, skip: int = 0) -> tuple[float, float] | None:
    """Return (start, seconds) of the last compute action, measured in the task's own thread.

    Parameters
    ----------
    startstops
        ``[{"action": ..., "start": ..., "stop": ...}]``, in Unix time by the worker's clock.
    skip
        So many entries belong to earlier attempts.
    """
    for entry in reversed((startstops or ())[skip:]):
        if entry.get("action") == "compute":
            return float(entry["start"]), float(entry["stop"]) - float(entry["start"])
    return None


def compute_seconds(startstops: Any) -> float | None:
    """Return the length of the last compute action; None if there is none."""
    # as `compute_span`, but the scheduler needs it of every task
    for entry in reversed(startstops or ()):
        if entry["action"] == "compute":
            return float(entry["stop"] - entry["start"])
    return None


def is_wanted(task: Any) -> bool:
    """Return whether a client or a task waits for a task (``TaskState.who_wants``, ``waiters``)."""
    return bool(task.who_wants or task.waiters)


def threads_of_tasks(worker: Any) -> dict[Key, int]:
    """Return ``{key: thread}`` of tasks whose code runs in a thread (``Worker.active_threads``).

    Needs ``Worker.active_threads_lock`` too, which Dask's threads take for a moment.
    """
    active = getattr(worker, "active_threads", None)
    if not active:
        return {}
    with worker.active_threads_lock:
        return {key: thread for thread, key in active.items()}


def pooled_threads(worker: Any) -> set[int]:
    """Return the threads that belong to one of the worker's pools (``Executor._threads``).

    One that seceded does not, until it has rejoined.
    """
    pools = [getattr(pool, "_threads", ()) for pool in worker.executors.values()]
    return {thread.ident for pool in pools for thread in tuple(pool) if thread.ident is not None}


def executor_of(task: Any) -> str:
    """Return the name of the executor that runs a task (``TaskState.annotations``)."""
    return str((task.annotations or {}).get("executor", "default"))


def executor_backlog(worker: Any, name: str) -> int:
    """Return how many tasks wait for a thread or process of an executor.

    Needs ``ThreadPoolExecutor._work_queue`` (in which each thread that wants to rejoin has an entry
    too, see ``distributed.threadpoolexecutor.rejoin``), or ``ProcessPoolExecutor``'s
    ``_pending_work_items``, which holds those that run as well.
    """
    pool = worker.executors.get(name)
    queue = getattr(pool, "_work_queue", None)
    if queue is not None:
        return max(0, int(queue.qsize()) - len(getattr(pool, "_rejoin_list", ())))
    pending = len(getattr(pool, "_pending_work_items", ()))
    return max(0, pending - int(getattr(pool, "_max_workers", pending)))


def is_coroutine(task: Any) -> bool:
    """Return whether a task is a coroutine, which needs no thread (``GraphNode.is_coro``).

    Older releases do not tell.
    """
    return bool(getattr(task.run_spec, "is_coro", False))


def thread_of_result(worker: Any, key: Key) -> int | None:
    """Return the thread that ran a task which has just ended (``Worker.threads``), or None."""
    return getattr(worker, "threads", {}).get(key)


def states_of_threads(worker: Any, rejoined: int = 0) -> dict[str, float]:
    """Return how many threads of a worker are in each state (``WorkerState``, ``status``).

    Parameters
    ----------
    worker
        Whose threads.
    rejoined
        Attempts that seceded and run in the pool again, of which Dask keeps no count.
    """
    state = worker.state
    return thread_states(
        nthreads=state.nthreads,
        executing=len(state.executing) + rejoined,
        waiting=len(getattr(state, "waiting", ())),
        constrained=len(getattr(state, "constrained", ())),
        paused=worker.status.name == "paused",
    )


def prefix_of(key: Key) -> str:
    """Return the name of a key's prefix (``dask.utils.key_split``)."""
    return str(key_split(key))


def group_of(key: Key) -> str:
    """Return the name of a key's group (``distributed.utils.key_split_group``)."""
    # the empty key and a few others upset it
    try:
        return str(key_split_group(key))
    except Exception:  # noqa: BLE001 (any key that Dask runs has a group)
        return str(key)


def span_id(task: Any) -> str:
    """Return the identity of a task's span (``TaskState.span_id``); empty if it has none."""
    return getattr(task, "span_id", None) or ""


def output_bytes(task: Any) -> float | None:
    """Return the size of a task's result as Dask estimates it (``TaskState.nbytes``), or None."""
    size = getattr(task, "nbytes", None)
    return None if size is None else float(size)


def failure_of(task: Any) -> tuple[str, str, bytes]:
    """Return (``repr`` of the exception, traceback, pickled exception) of a task that failed.

    Needs ``TaskState.exception_text``, ``.traceback_text`` and ``.exception``; empty without.
    """
    pickled = getattr(getattr(task, "exception", None), "data", b"")
    return (
        str(getattr(task, "exception_text", None) or ""),
        str(getattr(task, "traceback_text", None) or ""),
        pickled if isinstance(pickled, bytes) else b"",
    )


def latest_transfer(worker: Any) -> tuple[str, float, float] | None:
    """Return (source, bytes, seconds) of what a worker fetched last, or None.

    Needs ``Worker.transfer_incoming_log``, to which Dask has just appended it.
    """
    log = getattr(worker, "transfer_incoming_log", None)
    if not log:
        return None
    entry = log[-1]
    return str(entry["who"]), float(entry["total"]), float(entry["stop"]) - float(entry["start"])


def report_gap(worker: Any) -> float:
    """Return the seconds between two heartbeats of a worker (its periodic callback's setting)."""
    heartbeat = worker.periodic_callbacks.get("heartbeat")
    milliseconds = getattr(heartbeat, "callback_time", None)
    return milliseconds / 1000 if milliseconds else 0.5


def is_connected(worker: Any) -> bool:
    """Return whether the worker's stream to the scheduler is open (``Worker.batched_stream``).

    Dask drops what is sent while it is not.
    """
    comm = getattr(getattr(worker, "batched_stream", None), "comm", None)
    return comm is not None and not comm.closed()


# Scheduler


def heartbeat_interval(scheduler: Any) -> float:
    """Return the seconds between heartbeats that the scheduler asks for."""
    interval = getattr(dask_scheduler, "heartbeat_interval", None)
    seconds = interval(len(scheduler.workers)) if interval is not None else 0.5
    return max(0.5, float(seconds)) if math.isfinite(seconds) else 0.5


def is_processing(scheduler: Any, key: Key, worker: str, run_id: int) -> bool:
    """Return whether the scheduler still waits for this attempt of a key on this worker.

    Needs ``TaskState.processing_on`` and, where it exists, ``TaskState.run_id``.
    """
    task = scheduler.tasks.get(key)
    if task is None or task.processing_on is None or task.processing_on.address != worker:
        return False
    return getattr(task, "run_id", run_id) == run_id


def fail(
    scheduler: Any, key: Key, run_id: int, error: Exception, *, avoid: Collection[str]
) -> None:
    """Fail a task as if its worker had told of an error, and have the worker give it up.

    That takes the way of the worker's own message (``stream_handlers["task-erred"]``), so retries
    that the task has left are used, dependents fail too, and all clients are told. A retry runs
    on no worker to avoid, if it can: the same worker would go on with the attempt that it has.
    """
    task = scheduler.tasks[key]
    worker = task.processing_on.address
    if task.retries > 0:
        _keep_away(scheduler, task, avoid)
    scheduler.stream_handlers["task-erred"](
        worker=worker,
        key=key,
        run_id=run_id,
        stimulus_id=f"taskmeter-timeout-{time()}",
        exception=pickle.dumps(error),
        traceback=None,
        exception_text=repr(error),
        traceback_text="",
    )
    if task.state == "erred":
        message = {"op": "free-keys", "keys": [key], "stimulus_id": f"taskmeter-timeout-{time()}"}
        scheduler.send_all({}, {worker: [message]})


def run_elsewhere(scheduler: Any, key: Key, *, avoid: Collection[str]) -> bool:
    """Give up a task's attempt and have one on no worker to avoid; False if there is no other."""
    task = scheduler.tasks[key]
    if not _keep_away(scheduler, task, avoid):
        return False
    scheduler.transitions({key: "released"}, stimulus_id=f"taskmeter-timeout-{time()}")
    return True


def _keep_away(scheduler: Any, task: Any, avoid: Collection[str]) -> bool:
    """Restrict a task to other workers (``TaskState.worker_restrictions``), if it may use any."""
    valid = scheduler.valid_workers(task)
    others = {ws.address for ws in (scheduler.running if valid is None else valid)} - set(avoid)
    if others:
        scheduler.set_restrictions({task.key: others})
        task.loose_restrictions = True
    return bool(others)


def attempt_of(task: Any) -> tuple[Key, int]:
    """Return (key, run id) of a scheduler's task: its latest attempt (``TaskState.run_id``)."""
    run_id = getattr(task, "run_id", None)
    return task.key, 0 if run_id is None else run_id


#: Of so many dependencies bytes are added up.
_MOST_INPUTS = 100


def input_bytes(task: Any) -> float | None:
    """Return the bytes of a task's dependencies; None if they are many, or of unknown size."""
    dependencies = task.dependencies
    if len(dependencies) > _MOST_INPUTS:
        return None
    sizes = [dependency.nbytes for dependency in dependencies]
    return None if any(size is None or size < 0 for size in sizes) else float(sum(sizes))


def expected_by_dask(scheduler: Any, prefix: str) -> float | None:
    """Return what Dask takes a task of a prefix to last, as ``get_task_duration`` has it.

    Needs ``TaskPrefix.duration_average``, ``.max_exec_time`` and ``UNKNOWN_TASK_DURATION``.
    """
    found = scheduler.task_prefixes.get(prefix)
    if found is None:
        return None
    if found.duration_average >= 0:
        return float(found.duration_average)
    if getattr(found, "max_exec_time", -1) > 0:
        return 2.0 * float(found.max_exec_time)
    unknown = getattr(scheduler, "UNKNOWN_TASK_DURATION", None)
    return None if unknown is None else float(unknown)


def default_durations() -> dict[str, float]:
    """Return ``{prefix: seconds}`` as Dask's configuration has it (``default-task-durations``)."""
    configured = dask.config.get("distributed.scheduler.default-task-durations", None) or {}
    return {prefix: float(parse_timedelta(value)) for prefix, value in configured.items()}


def has_default_duration(prefix: str) -> bool:
    """Return whether Dask's configuration says what a prefix takes (``default-task-durations``)."""
    return prefix in dask.config.get("distributed.scheduler.default-task-durations", {})


def task_states() -> tuple[str, ...]:
    """Return all states that a task can have (``scheduler.ALL_TASK_STATES``)."""
    return tuple(getattr(dask_scheduler, "ALL_TASK_STATES", ()))


def state_counts(prefix: Any) -> Mapping[str, int]:
    """Return ``{state: tasks}`` of a prefix (``TaskPrefix.states``)."""
    states: Mapping[str, int] = prefix.states
    return states


def computed(prefix: Any) -> int:
    """Return how often tasks of a prefix got a result (``TaskPrefix.state_counts``)."""
    return int(getattr(prefix, "state_counts", {}).get("memory", 0))


def with_dependencies(
    scheduler: Any, keys: Collection[Key], *, whole: bool
) -> tuple[list[Any], int]:
    """Return the tasks of some keys and those that they wait for, and how many keys are unknown.

    Parameters
    ----------
    scheduler
        Whose tasks.
    keys
        Which ones.
    whole
        Those that are done, and what those waited for, too.
    """
    found: dict[Key, Any] = {}
    unknown = 0
    stack = []
    for key in keys:
        task = scheduler.tasks.get(key)
        if task is None:
            unknown += 1
        else:
            stack.append(task)
    while stack:
        task = stack.pop()
        if task.key not in found and (whole or task.state != "memory"):
            found[task.key] = task
            stack.extend(task.dependencies)
    return list(found.values()), unknown


def idle_threads(scheduler: Any) -> Mapping[str, int]:
    """Return ``{address: idle threads}`` (``WorkerState.processing``); none while tasks queue."""
    if len(scheduler.queued):
        return {}
    running = (ws for ws in scheduler.workers.values() if ws.status.name == "running")
    free = {ws.address: ws.nthreads - (len(ws.processing) - len(ws.long_running)) for ws in running}
    return {address: threads for address, threads in free.items() if threads > 0}


def workers_that_start_nothing(scheduler: Any) -> tuple[int, int]:
    """Return how many workers are paused, and how many are retiring (``WorkerState.status``)."""
    names = [ws.status.name for ws in scheduler.workers.values()]
    return names.count("paused"), names.count("closing_gracefully")


def span_name(scheduler: Any, span_id: str) -> tuple[str, ...]:
    """Return the name of a span (``SpansSchedulerExtension.spans``); empty if it is not known."""
    spans = getattr(scheduler.extensions.get("spans"), "spans", {})
    name = getattr(spans.get(span_id), "name", ())
    return tuple(map(str, name))


def executing(worker_state: Any) -> Mapping[Any, float]:
    """Return ``{TaskState: seconds}`` as of the last heartbeat (``WorkerState.executing``)."""
    return getattr(worker_state, "executing", None) or {}
