"""Families of taskmeter itself: what it had to leave out, what it costs, and its errors."""

from __future__ import annotations

from collections.abc import Iterator

from taskmeter.attempts.attempt import OTHER
from taskmeter.catalogue.family import Family, Figures, Observed, Row


def _collect_seconds(figures: Figures) -> Iterator[Row]:
    if figures.collect_seconds is not None:
        yield (), figures.collect_seconds


def _errors(figures: Figures) -> Iterator[Row]:
    return (((where,), times) for where, times in figures.errors.items())


def _loop_turns(figures: Figures) -> Iterator[Row]:
    turns = figures.snapshot.loop_turns
    return (((part,), Observed(distribution)) for part, distribution in turns.items())


def _build(figures: Figures) -> Iterator[Row]:
    build = figures.build
    yield (build.version, build.distributed, str(build.protocol)), 1


#: Errors come last, so that they can tell of the others.
ITSELF: tuple[Family, ...] = (
    Family(
        name="invalid_samples",
        kind="counter",
        read=lambda figures: [((), figures.snapshot.invalid_samples)],
        help=(
            "Durations {where} that were negative, not finite or impossibly long, and were kept "
            "out of every figure. A growing number mostly means that a machine's clock was set "
            "while tasks ran."
        ),
    ),
    Family(
        name="folded_prefixes",
        kind="gauge",
        read=lambda figures: [((), figures.folded)],
        help=(
            f'Task prefixes {{where}} that share task_prefix_name="{OTHER}" because there are '
            "more than the setting taskmeter.max-prefixes lets have series of their own. Sums "
            "over all prefixes stay exact."
        ),
    ),
    Family(
        name="collect_duration_seconds",
        kind="gauge",
        unit="seconds",
        read=_collect_seconds,
        help=(
            "How long the scrape before this one held the server's event loop to take its "
            "snapshot, or to give the figures to Dask's own page; taskmeter's page is then "
            "written in a thread. Absent in the first scrape after the start."
        ),
    ),
    Family(
        name="loop_turn_seconds",
        kind="histogram",
        unit="seconds",
        labels=("part",),
        scopes=("scheduler",),
        read=_loop_turns,
        help=(
            "How long each part of taskmeter held the scheduler's event loop, each time: the "
            "message of a worker, the timer (twice a second; the estimates are part of it), a "
            "scrape, a snapshot, a page's snapshot."
        ),
    ),
    Family(
        name="build",
        kind="info",
        labels=("version", "distributed", "protocol"),
        read=_build,
        help=(
            "Always 1; its labels tell the versions of taskmeter and of distributed, and of the "
            "protocol by which workers report, which the whole cluster should share."
        ),
    ),
    Family(
        name="errors",
        kind="counter",
        labels=("where",),
        read=_errors,
        help=(
            "Errors of taskmeter itself {where}, by place; a place has no series before its "
            "first error. They are contained and the first of each place is logged: figures may "
            "be missing, but Dask is not affected. Please report them."
        ),
    ),
)
