"""The course of a whole program, in bounded memory: the longer it takes, the coarser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from taskmeter.history.moment import MOST_NAMES, Moment
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.figures.history import History
from taskmeter.views.figures.top import top

#: A moment that is shorter is made a part of the one before it: what reports bring late would look
#: like a burst in it.
LEAST_SECONDS = 0.25

#: When there are so many moments, each two neighbours become one.
MOST_MOMENTS = 400


class Course:
    """Moments from the first snapshot to the last; nothing between these is left out.

    There are `MOST_MOMENTS` at most. Up to the last one they stand for equally many looks.
    """

    def __init__(self) -> None:
        self._history = History(1)
        self._moments: list[Moment] = []
        #: looks that a moment stands for, and those that the last one has got
        self._pace = 1
        self._taken = 0

    @property
    def moments(self) -> tuple[Moment, ...]:
        """What is known, the oldest first."""
        return tuple(self._moments)

    def add(self, snapshot: Snapshot) -> None:
        """Take in a snapshot; one that is not newer than the last one is passed over."""
        before = self._history.moments
        self._history.add(snapshot)
        now = self._history.moments
        if now and now != before:
            self._append(now[-1])

    def _append(self, moment: Moment) -> None:
        if self._moments and (self._taken < self._pace or moment.seconds < LEAST_SECONDS):
            self._moments[-1] = both(self._moments[-1], moment)
            self._taken += 1
            return
        if len(self._moments) == MOST_MOMENTS:
            old = self._moments
            self._moments = [both(a, b) for a, b in zip(old[::2], old[1::2], strict=True)]
            self._pace *= 2
        self._moments.append(moment)
        self._taken = 1


def settled(moments: Sequence[Moment]) -> tuple[Moment, ...]:
    """Return moments of which none has more compute than there were threads for, the first aside.

    What is too much was reported late, by a worker that could not be heard for a while. It belongs
    to the time before, and is moved there. Nothing is lost.
    """
    corrected = list(moments)
    for place in range(len(corrected) - 1, 0, -1):
        moment = corrected[place]
        excess = moment.busy_seconds - moment.thread_seconds
        if excess > 0:
            late = _part(moment, excess / moment.busy_seconds)
            corrected[place] = _part(moment, moment.thread_seconds / moment.busy_seconds)
            earlier = corrected[place - 1]
            corrected[place - 1] = replace(
                earlier,
                compute_seconds=_added(earlier.compute_seconds, late.compute_seconds),
                rest_seconds=earlier.rest_seconds + late.rest_seconds,
            )
    return tuple(corrected)


def _part(moment: Moment, share: float) -> Moment:
    return replace(
        moment,
        compute_seconds={name: share * s for name, s in moment.compute_seconds.items()},
        rest_seconds=share * moment.rest_seconds,
    )


def both(first: Moment, second: Moment) -> Moment:
    """Return two moments that follow each other as one; how busy the workers were is left out."""
    seconds = _added(first.compute_seconds, second.compute_seconds)
    split = top(seconds, MOST_NAMES)
    rest = (first.rest_seconds, second.rest_seconds, *(seconds[name] for name in split.rest))
    return Moment(
        start=first.start,
        stop=second.stop,
        compute_seconds={name: seconds[name] for name in split.kept},
        rest_seconds=math.fsum(rest),
        thread_seconds=first.thread_seconds + second.thread_seconds,
        idle_seconds=_added(first.idle_seconds, second.idle_seconds),
        ended=first.ended + second.ended,
    )


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}
