"""What recordings are made of in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from taskmeter.attempts.attempt import AttemptTotals, no_attempts
from taskmeter.distributions.distribution import Distribution
from taskmeter.history.moment import Moment
from taskmeter.history.news import News
from taskmeter.history.recording_writer import Limits, RecordingWriter
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.failure import Failure
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats

START = 1_700_000_000.0


def attempt(number: int, **changes: object) -> EndedAttempt:
    fields = {
        "number": number,
        "prefix": "inc",
        "key": f"inc-{number}",
        "run_id": number,
        "worker": "tcp://10.0.0.1:1",
        "thread": number % 2,
        "start": START + number / 100,
        "seconds": 0.01,
        "outcome": "ok",
        "weight": 1.0,
    }
    return EndedAttempt(**{**fields, **changes})


def moment(place: int, seconds: float = 1.0, **changes: object) -> Moment:
    fields = {
        "start": START + place * seconds,
        "stop": START + (place + 1) * seconds,
        "compute_seconds": {"inc": seconds},
        "thread_seconds": 2 * seconds,
        "idle_seconds": {"no-task": seconds},
        "ended": 10,
        "band": (0.1, 0.2, 0.5, 0.8, 0.9),
    }
    return Moment(**{**fields, **changes})


def failure(**changes: object) -> Failure:
    fields = {
        "prefix": "inc",
        "exception": "ValueError",
        "message": "no",
        "traceback": "Traceback ...",
        "count": 3,
        "first": START,
        "last": START + 1,
        "worker": "tcp://10.0.0.1:1",
        "key": "inc-3",
    }
    return Failure(**{**fields, **changes})


def snapshot(seconds: float = 10.0, **changes: object) -> Snapshot:
    durations = Distribution.of([0.01] * 90 + [0.1] * 10)
    stats = PrefixStats(
        compute_seconds=durations.sum,
        attempts={**no_attempts(), "ok": AttemptTotals(count=100, seconds=durations.sum)},
        durations={"compute": durations},
    )
    fields = {
        "at": START + seconds,
        "start": START,
        "prefixes": {"inc": stats},
        "thread_seconds": 2 * seconds,
        "nthreads": 2,
        "idle_seconds": {"no-task": 2 * seconds - durations.sum},
        "failures": (failure(),),
    }
    return Snapshot(**{**fields, **changes})


@contextmanager
def written(path: Path, limits: Limits | None = None) -> Iterator[RecordingWriter]:
    with closing(RecordingWriter(path, {"started": START}, limits)) as writer:
        yield writer


def whole_news() -> News:
    return News(
        moments=tuple(map(moment, range(10))),
        ended=tuple(map(attempt, range(1, 101))),
        snapshot=snapshot(),
    )
