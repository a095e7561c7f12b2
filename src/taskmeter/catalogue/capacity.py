"""Families of the capacity: how much there is, what idles, and where tasks and workers stand."""

from __future__ import annotations

from collections.abc import Iterator

from taskmeter.catalogue.family import PREFIX, Family, Figures, Row
from taskmeter.catalogue.words import IDLE


def _idle_seconds(figures: Figures) -> Iterator[Row]:
    idle = figures.snapshot.idle_seconds
    return (((reason,), seconds) for reason, seconds in idle.items())


def _task_states(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for state, seconds in stats.state_seconds.items():
            yield (name, state), seconds


def _worker_states(figures: Figures) -> Iterator[Row]:
    states = figures.snapshot.worker_state_seconds
    return (((state,), seconds) for state, seconds in states.items())


def _workers(figures: Figures) -> Iterator[Row]:
    # these two are there from the start, so that a change is seen
    workers = {figures.build.version: 0, "": 0} | dict(figures.snapshot.worker_versions)
    for version, number in workers.items():
        yield ("yes" if version else "no", version), number


def _workers_left(figures: Figures) -> Iterator[Row]:
    return (((reason,), left) for reason, left in figures.snapshot.workers_left.items())


#: The capacity, and what becomes of it.
CAPACITY: tuple[Family, ...] = (
    Family(
        name="thread_seconds",
        kind="counter",
        unit="seconds",
        reported=True,
        read=lambda figures: [((), figures.snapshot.thread_seconds)],
        help=(
            "Execution threads {where}, integrated over time: the capacity. Of its rate, what is "
            "not the rate of idle_seconds_total over all reasons is busy: on the scheduler, that "
            "of cluster_compute_seconds_total. Their ratio is the utilisation."
        ),
    ),
    Family(
        name="idle_seconds",
        kind="counter",
        unit="seconds",
        labels=("reason",),
        reported=True,
        read=_idle_seconds,
        help=(
            "Thread seconds {where} in which no task's code ran, by reason: "
            + ", ".join(f"{reason} ({words})" for reason, words in IDLE.items())
            + ". With compute_seconds_total they make up thread_seconds_total. A "
            "worker alone cannot tell scheduler from no-task, and says no-task."
        ),
    ),
    Family(
        name="task_state_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX, "state"),
        scopes=("scheduler",),
        read=_task_states,
        help=(
            "The number of tasks in each of the scheduler's states, integrated over time at every "
            "transition: its rate is the exact mean number of tasks in a state between two "
            "scrapes, however short they stay. Absent with the setting taskmeter.occupancy: false."
        ),
    ),
    Family(
        name="worker_state_seconds",
        kind="counter",
        unit="seconds",
        labels=("state",),
        scopes=("scheduler",),
        read=_worker_states,
        help=(
            "The number of workers that are idle, partially_saturated, saturated, paused or "
            "retiring, integrated over time: its rate is the mean number of workers in a state."
        ),
    ),
    Family(
        name="workers",
        kind="gauge",
        labels=("metered", "version"),
        scopes=("scheduler",),
        read=_workers,
        help=(
            "Workers there are {where} now, by whether they report by themselves and by the "
            'version of taskmeter they run. Those with metered="no" have none, or one of another '
            "protocol: their figures are estimated from what Dask tells the scheduler, and "
            "percentiles lack what only a worker sees. A worker that has just come is among them "
            "until its first report."
        ),
    ),
    Family(
        name="workers_joined",
        kind="counter",
        scopes=("scheduler",),
        read=lambda figures: [((), figures.snapshot.workers_joined)],
        help="Workers that came {where} since taskmeter did.",
    ),
    Family(
        name="workers_left",
        kind="counter",
        labels=("reason",),
        scopes=("scheduler",),
        read=_workers_left,
        help=(
            "Workers that went {where}, by reason: retired (results were copied first, as by "
            "Client.retire_workers or at the end of a worker's lifetime), closed (said so, as when "
            "LocalCluster.scale closes it, or was removed by a restart), timeout (no heartbeat for "
            "longer than distributed.scheduler.worker-ttl), lost (the connection broke, as when a "
            "process is killed)."
        ),
    ),
)
