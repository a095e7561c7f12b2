"""A fair sample of the attempts that ended between two messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from taskmeter.attempts.attempt import Key
from taskmeter.protocol.message import Completion

#: Of each prefix so many ok attempts go into a message, and so many of each other outcome.
MOST_OK = 16
MOST_OTHERS = 64


class Ended(NamedTuple):
    """An attempt that ended, as in `Completion`; `start` is on the clock of its process."""

    key: Key
    run_id: int
    start: float
    seconds: float
    outcome: str
    thread: int
    input_bytes: float | None
    seceded: bool


class Dice:
    """A linear congruential generator (Numerical Recipes).

    This package reads no clock and no source of randomness.
    """

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state = 0

    def below(self, number: int) -> int:
        """Return a whole number from 0 on and below `number`."""
        self._state = (1664525 * self._state + 1013904223) & 0xFFFFFFFF
        return self._state * number >> 32


class _Stratum:
    """A fair sample of bounded size (Vitter's algorithm R)."""

    __slots__ = ("count", "most", "sample")

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self.sample: list[Ended] = []

    def add(self, ended: Ended, dice: Dice) -> None:
        self.count += 1
        if len(self.sample) < self.most:
            self.sample.append(ended)
            return
        place = dice.below(self.count)
        if place < self.most:
            self.sample[place] = ended


class EndedSample:
    """Attempts of one prefix that ended, each outcome a stratum of its own.

    Those that the receiver was told of while they ran are another one, and all kept.
    """

    __slots__ = ("_strata", "_told")

    def __init__(self) -> None:
        self._told: list[Ended] = []
        #: {outcome: sample}
        self._strata: dict[str, _Stratum] = {}

    def add(self, ended: Ended, dice: Dice, *, told: bool) -> None:
        """Add an attempt, told of while it ran or not."""
        if told:
            self._told.append(ended)
            return
        stratum = self._strata.get(ended.outcome)
        if stratum is None:
            most = MOST_OK if ended.outcome == "ok" else MOST_OTHERS
            stratum = self._strata[ended.outcome] = _Stratum(most)
        stratum.add(ended, dice)

    def completions(self, prefix: str, now: float) -> Iterator[Completion]:
        """Yield the attempts as a message tells them, with how many each stands for."""
        weighted = [(ended, 1.0) for ended in self._told]
        for stratum in self._strata.values():
            weight = stratum.count / len(stratum.sample)
            weighted += [(ended, weight) for ended in stratum.sample]
        for ended, weight in weighted:
            yield Completion(
                prefix=prefix,
                key=ended.key,
                run_id=ended.run_id,
                start_age=max(0.0, now - ended.start),
                seconds=ended.seconds,
                outcome=ended.outcome,
                thread=ended.thread,
                input_bytes=ended.input_bytes,
                weight=weight,
                seceded=ended.seceded,
            )
