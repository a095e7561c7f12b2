"""Attempts as bars over time, a lane for each thread of each worker."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taskmeter.attempts.attempt import InFlight
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.tables.running import worker_names

#: Bars and lanes of one picture.
MOST_BARS = 1000
MOST_LANES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One attempt.

    Parameters
    ----------
    lane
        The number of its lane, from 0.
    prefix, key
        Which attempt.
    worker
        The address of its worker.
    start, stop
        Unix time; an attempt in flight goes on until the snapshot.
    outcome
        How it ended; ``running`` if it has not.
    """

    lane: int
    prefix: str
    key: str
    worker: str
    start: float
    stop: float
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The latest attempts.

    Parameters
    ----------
    lanes
        What the lanes are called: worker and thread.
    bars
        The attempts, the oldest first.
    hidden_lanes
        Threads that ran something and have no lane.
    sampled
        Not every attempt that ended is told: some stand for others of their prefix.
    """

    lanes: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    hidden_lanes: int = 0
    sampled: bool = False


def timeline(snapshot: Snapshot, most: int = MOST_BARS) -> Timeline:
    """Return the latest attempts that ended, and those in flight, as bars.

    Where there are more than `MOST_LANES` threads, those are shown on which something happened
    last. Coroutines, which have no thread, share the lanes below their worker's threads: each takes
    the first one that is free.
    """
    ended = snapshot.ended[-most:]
    spans: list[tuple[EndedAttempt | InFlight, float, float, str]] = [
        *((a, a.start, a.start + a.seconds, a.outcome) for a in ended),
        *((a, a.start, snapshot.at, "running") for a in snapshot.running[:most]),
    ]
    spans.sort(key=lambda span: span[1])
    places = _places((attempt, start, stop) for attempt, start, stop, _ in spans)
    last: dict[tuple[str, int], float] = {}
    for place, (_, _, stop, _) in zip(places, spans, strict=True):
        last[place] = max(stop, last.get(place, stop))
    kept = sorted(sorted(last, key=lambda place: -last[place])[:MOST_LANES])
    lanes = {place: number for number, place in enumerate(kept)}
    names = worker_names(snapshot)
    return Timeline(
        lanes=tuple(f"{names.get(worker, worker)} / {thread}" for worker, thread in kept),
        bars=tuple(
            Bar(
                lane=lanes[place], prefix=a.prefix, key=a.key, worker=a.worker, start=start,
                stop=stop, outcome=outcome,
            )
            for place, (a, start, stop, outcome) in zip(places, spans, strict=True)
            if place in lanes
        ),
        hidden_lanes=len(last) - len(kept),
        sampled=any(attempt.weight > 1 for attempt in ended),
    )  # fmt: skip


def _places(
    spans: Iterable[tuple[EndedAttempt | InFlight, float, float]],
) -> list[tuple[str, int]]:
    """Return ``(worker, number of the lane there)`` of each attempt; they come by start."""
    #: {worker: when each lane of its coroutines is free}
    free: dict[str, list[float]] = {}
    places = []
    for attempt, start, stop in spans:
        thread = attempt.thread
        if thread < 0:
            until = free.setdefault(attempt.worker, [])
            lane = next((n for n, busy in enumerate(until) if busy <= start), len(until))
            until[lane : lane + 1] = [stop]
            thread = _FIRST_COROUTINE + lane
        places.append((attempt.worker, thread))
    return places


#: Lanes of coroutines come after those of threads.
_FIRST_COROUTINE = 1000
