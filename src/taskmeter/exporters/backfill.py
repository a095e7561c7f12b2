"""A recording as OpenMetrics with timestamps, from which promtool makes blocks of the past.

``promtool tsdb create-blocks-from openmetrics FILE DATA`` writes them into Prometheus's storage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from taskmeter.attempts.attempt import OTHER, OUTCOMES
from taskmeter.catalogue import FAMILIES, Family
from taskmeter.distributions.grid import Floats
from taskmeter.exporters.encoded_cache import Written
from taskmeter.exporters.samples import Reading
from taskmeter.exporters.text import Escaped, OpenMetricsEncoder
from taskmeter.history.moment import Moment
from taskmeter.snapshots.ended import EndedAttempt

#: ``{values of the labels: the figure at each instant}``
Series: TypeAlias = Mapping[tuple[str, ...], Floats]

_FAMILIES: Final[Mapping[str, Family]] = {family.name: family for family in FAMILIES}


def openmetrics(
    moments: Sequence[Moment], ended: Sequence[EndedAttempt], namespace: str
) -> Iterator[str]:
    """Return the counters of a run as OpenMetrics 1.0, a family at a time.

    Each series begins with 0 where the history does, and has a sample at the end of each of its
    steps. Compute seconds of prefixes that a step does not name are under ``__other__``. Attempts
    are counted by the weights of those that were recorded.

    Parameters
    ----------
    moments
        The history, the oldest first.
    ended
        The attempts.
    namespace
        What names begin with.
    """
    if moments:
        instants = np.array([moments[0].start, *(moment.stop for moment in moments)])
        stamps = [f"{instant:.3f}" for instant in instants.tolist()]
        for name, series in _counters(moments, ended, instants):
            yield from _family(_FAMILIES[name], series, stamps, namespace)
    yield "# EOF\n"


def _counters(
    moments: Sequence[Moment], ended: Sequence[EndedAttempt], instants: Floats
) -> Iterator[tuple[str, Series]]:
    """Yield ``(name of a family, its series)``."""
    compute: dict[tuple[str, ...], Floats] = {}
    idle: dict[tuple[str, ...], Floats] = {}
    for place, moment in enumerate(moments, start=1):
        for of, seconds in (
            (compute, {**moment.compute_seconds}),
            (idle, moment.idle_seconds),
        ):
            for name, added in seconds.items():
                of.setdefault((name,), np.zeros(instants.size))[place] += added
        if moment.rest_seconds:
            compute.setdefault((OTHER,), np.zeros(instants.size))[place] += moment.rest_seconds
    yield "compute_seconds", _summed(compute)
    yield "cluster_compute_seconds", {(): _of(m.busy_seconds for m in moments)}
    yield "thread_seconds", {(): _of(m.thread_seconds for m in moments)}
    yield "idle_seconds", _summed(idle)
    counts, lengths = _ended(ended, instants)
    yield "attempts", counts
    yield "cluster_attempts", _by_outcome(counts, instants)
    yield "attempt_seconds", lengths
    yield "cluster_attempt_seconds", _by_outcome(lengths, instants)


def _ended(ended: Sequence[EndedAttempt], instants: Floats) -> tuple[Series, Series]:
    """Return the number and the seconds of the attempts that had ended by each instant."""
    counts: dict[tuple[str, ...], Floats] = {}
    lengths: dict[tuple[str, ...], Floats] = {}
    stops = np.array([attempt.start + attempt.seconds for attempt in ended])
    # what is told after the last step has ended by then
    places = np.minimum(np.searchsorted(instants, stops), instants.size - 1)
    for attempt, place in zip(ended, places.tolist(), strict=True):
        labels = attempt.prefix, attempt.outcome
        if labels not in counts:
            for outcome in OUTCOMES:
                counts[attempt.prefix, outcome] = np.zeros(instants.size)
                lengths[attempt.prefix, outcome] = np.zeros(instants.size)
        counts[labels][place] += attempt.weight
        lengths[labels][place] += attempt.weight * attempt.seconds
    return _summed(counts), _summed(lengths)


def _by_outcome(series: Series, instants: Floats) -> Series:
    sums: dict[tuple[str, ...], Floats] = {(o,): np.zeros(instants.size) for o in OUTCOMES}
    for (_, outcome), values in series.items():
        sums[(outcome,)] += values
    return sums


def _summed(added: Mapping[tuple[str, ...], Floats]) -> Series:
    return {labels: np.cumsum(values) for labels, values in added.items()}


def _of(added: Iterator[float]) -> Floats:
    return np.cumsum([0.0, *added])


def _family(family: Family, series: Series, stamps: Sequence[str], namespace: str) -> Iterator[str]:
    name = family.full_name("scheduler", namespace)
    reading = Reading(family=family, name=name, help=family.help_in("scheduler"), rows=iter(()))
    yield OpenMetricsEncoder(Written()).head(reading)
    escaped = Escaped()
    for labels, values in series.items():
        pairs = ",".join(
            f'{label}="{escaped[value]}"'
            for label, value in zip(family.labels, labels, strict=True)
        )
        of = f"{name}{family.suffix}{{{pairs}}}" if pairs else f"{name}{family.suffix}"
        yield "".join(
            f"{of} {value!r} {stamp}\n"
            for value, stamp in zip(values.tolist(), stamps, strict=True)
            if math.isfinite(value)
        )
