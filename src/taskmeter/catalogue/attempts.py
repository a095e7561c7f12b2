"""Families of attempts: what they cost, how they end, and which are in flight."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from taskmeter.attempts.attempt import OTHER, OUTCOMES
from taskmeter.catalogue.family import PREFIX, Family, Figures, Row, each_prefix
from taskmeter.snapshots.costs import SPAN, Cost
from taskmeter.snapshots.stats import PrefixStats
from taskmeter.text import utf8_safe

#: Spans that have series of their own; the others share ``__other__``.
MOST_SPANS: Final = 100


def _where_cpu_is_known(
    value: Callable[[PrefixStats], float],
) -> Callable[[Figures], Iterator[Row]]:
    """Return the reader of a number that would be 0 where CPU time cannot be measured."""

    def read(figures: Figures) -> Iterator[Row]:
        prefixes = figures.snapshot.prefixes
        if any(stats.cpu_seconds for stats in prefixes.values()):
            for name, stats in prefixes.items():
                yield (name,), value(stats)

    return read


def _attempts(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for outcome in OUTCOMES:
            yield (name, outcome), stats.attempts[outcome].count


def _attempt_seconds(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        for outcome in OUTCOMES:
            yield (name, outcome), stats.attempts[outcome].seconds


def _cluster_attempts(figures: Figures) -> Iterator[Row]:
    every = figures.snapshot.prefixes.values()
    return (((o,), sum(stats.attempts[o].count for stats in every)) for o in OUTCOMES)


def _cluster_attempt_seconds(figures: Figures) -> Iterator[Row]:
    # correctly rounded, so that it never falls while the parts grow
    every = figures.snapshot.prefixes.values()
    return (((o,), math.fsum(stats.attempts[o].seconds for stats in every)) for o in OUTCOMES)


def _oldest(figures: Figures) -> Iterator[Row]:
    for name, stats in figures.snapshot.prefixes.items():
        if stats.oldest_start is not None:
            yield (name,), stats.oldest_start


def _failures(figures: Figures) -> Iterator[Row]:
    prefixes = figures.snapshot.prefixes
    sums: Counter[tuple[str, str]] = Counter()
    for failure in figures.snapshot.failures:
        prefix = utf8_safe(failure.prefix)
        named = prefix in prefixes and prefix != OTHER
        exception = utf8_safe(failure.exception) if named else OTHER
        sums[prefix if named else OTHER, exception] += failure.count
    yield from sums.items()


def _of_spans(value: Callable[[Cost], float]) -> Callable[[Figures], Iterator[Row]]:
    """Return the reader of a figure that each span has."""

    def read(figures: Figures) -> Iterator[Row]:
        sums: dict[str, list[float]] = {}
        for (kind, name), cost in figures.snapshot.costs.items():
            if kind == SPAN:
                shown = utf8_safe(name)
                if shown not in sums and len(sums) >= MOST_SPANS:
                    shown = OTHER
                sums.setdefault(shown, []).append(value(cost))
        # correctly rounded, so that it never falls while the parts grow
        yield from (((span,), math.fsum(values)) for span, values in sums.items())

    return read


#: What attempts cost, how they ended, and which are in flight.
ATTEMPTS: tuple[Family, ...] = (
    Family(
        name="compute_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX,),
        reported=True,
        read=each_prefix(lambda stats: stats.compute_seconds),
        help=(
            "Seconds for which attempts of a task held an execution thread {where}, counted while "
            "they run and whatever their outcome, up to the moment they secede. Its rate is the "
            "number of threads that a prefix keeps busy; over all prefixes that is at most the "
            "number of threads there are."
        ),
    ),
    Family(
        name="cluster_compute_seconds",
        kind="counter",
        unit="seconds",
        scopes=("scheduler",),
        reported=True,
        read=lambda figures: [((), figures.snapshot.compute_seconds)],
        help=(
            "compute_seconds_total of all prefixes {where}. Take this one for rates: Prometheus "
            "first sees the series of a new prefix when that has run already, so a sum of rates "
            "over prefixes lacks what came before."
        ),
    ),
    Family(
        name="seceded_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX,),
        reported=True,
        read=each_prefix(lambda stats: stats.seceded_seconds),
        help=(
            "Seconds that attempts {where} went on after they had left the thread pool "
            "(distributed.secede, worker_client), counted while they run. They hold no execution "
            "thread meanwhile. Added to compute_seconds_total this is what Dask calls compute "
            "time."
        ),
    ),
    Family(
        name="cpu_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX,),
        reported=True,
        read=_where_cpu_is_known(lambda stats: stats.cpu_seconds),
        help=(
            "CPU time of all attempts {where}, read while they run: that of the thread that runs "
            "an attempt, without other threads that its code uses. Divided by the sum of "
            "compute_seconds_total and seceded_seconds_total it tells a task that computes from "
            "one that waits. "
            "Absent where no worker can read the CPU clocks of threads, as anywhere but on Linux."
        ),
    ),
    Family(
        name="attempts",
        kind="counter",
        labels=(PREFIX, "outcome"),
        read=_attempts,
        help=(
            "Executions of a task's own code that ended {where}, by outcome: ok, failed (it "
            "raised), cancelled (nobody wanted the result any more), rescheduled (it raised "
            "Reschedule), lost (its worker went away). A retry is a new attempt."
        ),
    ),
    Family(
        name="cluster_attempts",
        kind="counter",
        labels=("outcome",),
        scopes=("scheduler",),
        read=_cluster_attempts,
        help="attempts_total of all prefixes {where}; see cluster_compute_seconds_total.",
    ),
    Family(
        name="attempt_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX, "outcome"),
        read=_attempt_seconds,
        help=(
            "Compute seconds of the attempts that ended {where}, by outcome, added when an "
            "attempt ends. Every outcome but ok is work that was wasted; divided by "
            "attempts_total it gives the mean length of an attempt."
        ),
    ),
    Family(
        name="cluster_attempt_seconds",
        kind="counter",
        unit="seconds",
        labels=("outcome",),
        scopes=("scheduler",),
        read=_cluster_attempt_seconds,
        help="attempt_seconds_total of all prefixes {where}; see cluster_compute_seconds_total.",
    ),
    Family(
        name="failures",
        kind="counter",
        labels=(PREFIX, "exception"),
        scopes=("scheduler",),
        read=_failures,
        help=(
            "Attempts that failed {where}, by the type of their exception. 20 types of a prefix "
            "and 200 in all are told apart; the others are __other__, so that sums are exact."
        ),
    ),
    Family(
        name="span_compute_seconds",
        kind="counter",
        unit="seconds",
        labels=("span",),
        scopes=("scheduler",),
        read=_of_spans(lambda cost: cost.compute_seconds),
        help=(
            "Compute seconds of the attempts that ended {where}, by Dask's span. The first 100 "
            "spans keep their name, the others share __other__."
        ),
    ),
    Family(
        name="span_wasted_seconds",
        kind="counter",
        unit="seconds",
        labels=("span",),
        scopes=("scheduler",),
        read=_of_spans(lambda cost: cost.wasted_seconds),
        help=(
            "The part of span_compute_seconds_total whose attempts failed, were cancelled, "
            "rescheduled or lost {where}."
        ),
    ),
    Family(
        name="span_output_bytes",
        kind="counter",
        unit="bytes",
        labels=("span",),
        scopes=("scheduler",),
        read=_of_spans(lambda cost: cost.output_bytes),
        help="Bytes of the results of a span's tasks {where}.",
    ),
    Family(
        name="recomputed_seconds",
        kind="counter",
        unit="seconds",
        labels=(PREFIX,),
        scopes=("scheduler",),
        read=each_prefix(lambda stats: stats.recomputed_seconds),
        help=(
            "Compute seconds of ok attempts {where} that made a result again which had been there "
            "and was lost with its worker: waste that attempt_seconds_total counts as ok."
        ),
    ),
    Family(
        name="executing",
        kind="gauge",
        labels=(PREFIX,),
        reported=True,
        read=each_prefix(lambda stats: stats.executing),
        help=(
            "Attempts in flight {where} now: their code has started and has not stopped. Those "
            "that seceded, and those that were cancelled but still hold their thread, are "
            "included."
        ),
    ),
    Family(
        name="oldest_attempt_start_time_seconds",
        kind="gauge",
        unit="seconds",
        labels=(PREFIX,),
        read=_oldest,
        help=(
            "When the oldest attempt in flight {where} started, in Unix time; absent when none "
            "is. time() minus this is how long a prefix's slowest task has been running, so an "
            "alert on it finds hung tasks before they end."
        ),
    ),
    Family(
        name="stalled",
        kind="gauge",
        labels=(PREFIX,),
        read=_where_cpu_is_known(lambda stats: stats.stalled),
        help=(
            "Attempts in flight {where} whose CPU clock has stood still for longer than the "
            "setting taskmeter.stalled-seconds: they wait for something, or hang. taskmeter "
            "snapshot --stalled lists them. Absent where cpu_seconds_total is."
        ),
    ),
)
