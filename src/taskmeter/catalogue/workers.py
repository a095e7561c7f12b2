"""Families of single workers on the scheduler's page: which one is slow, which one fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from taskmeter.catalogue.family import Family, Figures, Row
from taskmeter.snapshots.snapshot import WorkerStatus

#: Ends the help of each.
_WHICH: Final = " Of as many workers as the setting taskmeter.worker-series says, by default none."


def _of_each(figure: Callable[[WorkerStatus], float | None]) -> Callable[[Figures], Iterator[Row]]:
    def rows(figures: Figures) -> Iterator[Row]:
        for worker in figures.snapshot.workers:
            value = figure(worker)
            if worker.metered and value is not None:
                yield (worker.address,), value

    return rows


def _attempts(figures: Figures) -> Iterator[Row]:
    for worker in figures.snapshot.workers:
        if worker.metered:
            for outcome, totals in worker.attempts.items():
                yield (worker.address, outcome), totals.count


#: Their names do not begin with "worker", as those on the workers' own pages do.
WORKERS: Final[tuple[Family, ...]] = (
    Family(
        name="per_worker_compute_seconds",
        kind="counter",
        unit="seconds",
        labels=("worker",),
        scopes=("scheduler",),
        read=_of_each(lambda worker: worker.compute_seconds),
        help="Compute seconds of all attempts on a worker, those in flight included." + _WHICH,
    ),
    Family(
        name="per_worker_thread_seconds",
        kind="counter",
        unit="seconds",
        labels=("worker",),
        scopes=("scheduler",),
        read=_of_each(lambda worker: worker.thread_seconds),
        help="Execution threads of a worker, integrated over time: its capacity." + _WHICH,
    ),
    Family(
        name="per_worker_attempts",
        kind="counter",
        labels=("worker", "outcome"),
        scopes=("scheduler",),
        read=_attempts,
        help="Ended attempts on a worker by outcome, as attempts_total has them." + _WHICH,
    ),
    Family(
        name="per_worker_slowness",
        kind="gauge",
        labels=("worker",),
        scopes=("scheduler",),
        read=_of_each(lambda worker: None if worker.speed is None else worker.speed.factor),
        help=(
            "How many times as long a worker's tasks take as those of the same prefixes on other "
            "workers. Absent where that is not known." + _WHICH
        ),
    ),
    Family(
        name="per_worker_report_age_seconds",
        kind="gauge",
        unit="seconds",
        labels=("worker",),
        scopes=("scheduler",),
        read=_of_each(lambda worker: worker.report_age_seconds),
        help="Time since a worker's last report." + _WHICH,
    ),
)
