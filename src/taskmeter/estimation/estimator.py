"""Starts and ends of one prefix's attempts in, estimates out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from math import isfinite

import numpy as np

from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.sample import HALF_LIFE, Running, Sample
from taskmeter.estimation.usual import Usual

__all__ = ["HALF_LIFE", "Estimator"]


class Estimator:
    """The sample of one prefix: completed attempts, and running ones as right-censored.

    An attempt that failed, was cancelled, rescheduled or lost is known to have lasted so long, and
    no more. One that secedes leaves the sample. Attempts are identified by any hashable value,
    ``(key, run_id)`` usually. An unknown one that ends counts as the latest start.

    Parameters
    ----------
    half_life
        As in `Sample`.
    """

    def __init__(self, *, half_life: float = HALF_LIFE) -> None:
        self._sample = Sample(half_life)
        #: {attempt: the instant of its start}
        self._running: dict[Hashable, float] = {}
        self._latest = -1e300
        self._invalid = 0

    @property
    def completions(self) -> int:
        """How many attempts completed."""
        return self.estimate({}).completions

    @property
    def running(self) -> int:
        """How many attempts started and neither ended nor left."""
        return len(self._running)

    @property
    def changed_at(self) -> float:
        """The first start after the last change of durations; minus infinity without one."""
        return self._sample.changed_at

    @property
    def invalid(self) -> int:
        """How many ends were refused, their seconds being negative or not finite."""
        return self._invalid

    def start(self, attempt: Hashable, at: float) -> None:
        """Note that an attempt started at the instant ``at``; a repetition changes nothing.

        Instants are compared with each other only. They may come in any order.
        """
        self._running.setdefault(attempt, at)
        self._latest = max(self._latest, at)

    def end(self, attempt: Hashable, *, outcome: str, seconds: float, weight: float = 1.0) -> None:
        """Note that an attempt ended after some seconds, with one of `OUTCOMES`.

        Parameters
        ----------
        weight
            How many attempts it stands for.
        """
        start = self._running.pop(attempt, self._latest)
        if not (isfinite(seconds) and seconds >= 0):
            self._invalid += 1
            return
        self._sample.add(
            start,
            seconds,
            completed=outcome == "ok",
            weight=weight,
        )
        if self._sample.look_is_due:
            now = start + seconds
            self._sample.look(self._columns({a: now - at for a, at in self._running.items()}))

    def leave(self, attempt: Hashable) -> None:
        """Forget an attempt, because it seceded: it says nothing of how long a slot is held."""
        self._running.pop(attempt, None)

    def estimate(self, ages: Mapping[Hashable, float]) -> Estimate:
        """Return what is known now.

        Parameters
        ----------
        ages
            ``{attempt: seconds it has run}``. A running attempt that is not in it is left out, and
            so is one in it that is not running here or whose age is negative or not finite.
        """
        return self._sample.estimate(self._columns(ages))

    def usual(self, ages: Mapping[Hashable, float]) -> Usual:
        """Return what lateness is judged by: see `Sample.usual`."""
        return self._sample.usual(self.estimate(ages))

    def _columns(self, ages: Mapping[Hashable, float]) -> Running:
        known = [a for a, age in ages.items() if a in self._running and 0 <= age < np.inf]
        return Running(
            starts=np.array([self._running[a] for a in known], dtype=np.float64),
            ages=np.array([ages[a] for a in known], dtype=np.float64),
        )
