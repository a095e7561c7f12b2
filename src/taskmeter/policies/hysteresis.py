"""When to follow a need that moves by chance as well as for a reason."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import log, sqrt
from sys import maxsize
from typing import Final

import numpy as np

from taskmeter.policies.scaling import Need

#: a need that has been on one side for so long is followed, in seconds
HOLD_SECONDS: Final = 10.0
#: two estimates that differ by chance differ by less, 95 times in 100: 1.96 times the root of 2
_CHANCE: Final = 1.96 * sqrt(2)
#: the least and the most that a need has to differ, relative to what there is
_LEAST: Final = 0.1
_MOST: Final = 1.0
#: the latest needs that tell how much it moves by chance
_REMEMBERED: Final = 60
#: what it moves by before that is known, relative to itself, and how many needs that counts for
_ASSUMED_NOISE: Final = 0.25
_ASSUMED_WEIGHT: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleTo:
    """Have so many workers."""

    workers: int
    because: str


class Steady:
    """Turns needs into targets, so that chance moves the target seldom.

    A need differs from the target by more than chance explains when it does so by 1.96 times the
    root of 2 standard errors, as both rest on an estimate; 10 % at least, a factor of 2 at most.
    The standard error is that of the work, or what the need has lately moved by around its own
    trend, if that is more. Such a need is followed up at once, and down when even the most that was
    needed within the last 10 seconds differs so. The target goes down at once to what tasks there
    are, when none is waiting: that is a count and no estimate.

    Parameters
    ----------
    hold
        Seconds that a small or falling need must last.
    """

    def __init__(self, *, hold: float = HOLD_SECONDS) -> None:
        self._hold = hold
        self._begin: float | None = None
        #: (instant, workers), of the last ``hold`` seconds
        self._window: deque[tuple[float, int]] = deque()
        #: logarithms of the latest needs
        self._logs: deque[float] = deque(maxlen=_REMEMBERED)

    def decide(self, need: Need, *, workers: int, now: float) -> ScaleTo:
        """Return the target.

        Parameters
        ----------
        need
            At this instant.
        workers
            The present target, or the number of workers when there is none yet.
        now
            The instant, in seconds; one that is before the last counts as that.
        """
        highest = self._note(need.workers, now)
        band = min(max(_CHANCE * max(need.relative_error, self._noise()), _LEAST), _MOST)
        if need.workers == workers:
            return ScaleTo(workers=workers, because=need.because)
        if need.workers > workers and need.workers >= workers * (1 + band):
            return ScaleTo(workers=need.workers, because=need.because)
        if need.most < workers and not need.waiting and workers >= need.most * (1 + _LEAST):
            return ScaleTo(workers=need.most, because=need.because)
        if highest * (1 + band) <= workers:
            since = f"; so for {self._hold:g} s"
            return ScaleTo(workers=highest, because=need.because + since)
        return ScaleTo(
            workers=workers,
            because=(
                f"{workers} as before: {need.workers} would do now, which is within chance "
                f"(± {band:.0%}) or has not lasted {self._hold:g} s; {need.because}"
            ),
        )

    def _note(self, workers: int, now: float) -> int:
        """Return the most needed of late; the most there is while that is not known."""
        if self._begin is None:
            self._begin = now
        window = self._window
        now = max(now, window[-1][0]) if window else now
        window.append((now, workers))
        while window[0][0] < now - self._hold:
            window.popleft()
        self._logs.append(log(max(workers, 1)))
        if now - self._begin < self._hold:
            return maxsize
        return max(one for _, one in window)

    def _noise(self) -> float:
        """Return the standard deviation of the needs around their trend, of the logarithm.

        By second differences (Gasser, Sroka and Jennen-Steinmetz, Biometrika 73, 1986), with two
        assumed.
        """
        second = np.diff(np.array(self._logs), n=2)
        squares = float(second @ second) / 6
        return sqrt(
            (squares + _ASSUMED_WEIGHT * _ASSUMED_NOISE**2) / (second.size + _ASSUMED_WEIGHT)
        )
