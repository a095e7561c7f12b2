"""A moment: what was added to the exported figures in a stretch of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from heapq import nlargest
from typing import Any, Final, TypeAlias

#: Prefixes that a moment knows by name.
MOST_NAMES: Final = 50

#: The shares of workers of which a moment knows how busy they were.
BAND: Final = (0.05, 0.25, 0.5, 0.75, 0.95)

#: Moments of the last minutes stay as they are; of what is older, a moment may last this share of
#: its age, so that two days take some 500 of them.
RECENT_SECONDS: Final = 300.0
COARSENESS: Final = 1 / 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What was added to the exported figures in a stretch of time.

    Rates are seconds by length: moments differ in length. Compute and idle seconds add up to the
    thread seconds, and none is negative.

    Parameters
    ----------
    start, stop
        When that time began and ended (Unix time).
    compute_seconds
        ``{prefix: compute seconds}`` of those that had most, in-flight ones included.
    rest_seconds
        The compute seconds of all other prefixes.
    thread_seconds
        The capacity.
    idle_seconds
        ``{reason: idle thread seconds}``.
    ended
        Attempts that ended.
    band
        How busy the workers were, from 0 to 1: the quantiles 0.05, 0.25, 0.5, 0.75 and 0.95 over
        all of them, of a longer moment the mean over its parts; empty if no worker tells.
    """

    start: float
    stop: float
    compute_seconds: Mapping[str, float] = field(default_factory=dict)
    rest_seconds: float = 0.0
    thread_seconds: float = 0.0
    idle_seconds: Mapping[str, float] = field(default_factory=dict)
    ended: int = 0
    band: tuple[float, ...] = ()

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.stop - self.start

    @property
    def busy_seconds(self) -> float:
        """The compute seconds of all prefixes."""
        return math.fsum(self.compute_seconds.values()) + self.rest_seconds

    def merge(self, later: Moment) -> Moment:
        """Return this moment and the one that follows it as one."""
        compute = _added(self.compute_seconds, later.compute_seconds)
        kept = nlargest(MOST_NAMES, compute, key=compute.__getitem__)
        named = {name: compute.pop(name) for name in kept}
        return Moment(
            start=self.start,
            stop=later.stop,
            compute_seconds=named,
            rest_seconds=math.fsum((self.rest_seconds, later.rest_seconds, *compute.values())),
            thread_seconds=self.thread_seconds + later.thread_seconds,
            idle_seconds=_added(self.idle_seconds, later.idle_seconds),
            ended=self.ended + later.ended,
            band=_mean_band(self, later),
        )

    def part(self, start: float, stop: float) -> Moment:
        """Return what of it lies between two instants, as if it had been even."""
        start, stop = max(start, self.start), min(stop, self.stop)
        share = (stop - start) / self.seconds
        if share == 1:
            return self
        return replace(
            self,
            start=start,
            stop=stop,
            compute_seconds={name: share * s for name, s in self.compute_seconds.items()},
            rest_seconds=share * self.rest_seconds,
            thread_seconds=share * self.thread_seconds,
            idle_seconds={reason: share * s for reason, s in self.idle_seconds.items()},
            ended=round(share * self.ended),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dict of numbers, lists and dicts."""
        plain = asdict(self)
        plain["band"] = list(self.band)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Moment:
        """Make the moment that `to_dict` was called on; unknown fields are passed over.

        Raises
        ------
        ValueError
            If `data` is not a moment.
        """
        try:
            return cls(
                start=float(data["start"]),
                stop=float(data["stop"]),
                compute_seconds=dict(data["compute_seconds"]),
                rest_seconds=float(data["rest_seconds"]),
                thread_seconds=float(data["thread_seconds"]),
                idle_seconds=dict(data["idle_seconds"]),
                ended=int(data["ended"]),
                band=tuple(data["band"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"This is not a moment of a history: {error!r}.") from error


#: Returns, for an instant, what returns the moments after it in any thread; None for all of them.
Past: TypeAlias = Callable[[float | None], Callable[[], tuple[Moment, ...]]]


def between(moments: Sequence[Moment], start: float, stop: float) -> tuple[Moment, ...]:
    """Return what of some moments lies between two instants."""
    return tuple(
        moment.part(start, stop)
        for moment in moments
        if min(stop, moment.stop) > max(start, moment.start)
    )


def extended(known: Sequence[Moment], newer: Sequence[Moment]) -> tuple[Moment, ...]:
    """Return a course with what was learnt since, in a bounded number of moments.

    Nothing is left out. What is newer replaces what is known of the same time. The last minutes
    stay as they are; of what is older, neighbours become one, the more the older they are.

    Parameters
    ----------
    known, newer
        Moments without overlaps, the oldest first.
    """
    begin = newer[0].start if newer else math.inf
    moments = [*between(known, -math.inf, begin), *newer]
    old = moments[-1].stop - RECENT_SECONDS if moments else 0.0
    return thinned(moments, lambda moment: COARSENESS * (old - moment.start))


def thinned(moments: Iterable[Moment], room: Callable[[Moment], float]) -> tuple[Moment, ...]:
    """Return moments with neighbours as one while there is room for their length.

    Parameters
    ----------
    moments
        The oldest first.
    room
        Gives the seconds that may be one, from the first of them on.
    """
    course: list[Moment] = []
    for moment in moments:
        if course and moment.stop - course[-1].start <= room(course[-1]):
            course[-1] = course[-1].merge(moment)
        else:
            course.append(moment)
    return tuple(course)


def _added(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    return {name: first.get(name, 0.0) + second.get(name, 0.0) for name in {**first, **second}}


def _mean_band(first: Moment, second: Moment) -> tuple[float, ...]:
    if not (first.band and second.band):
        return first.band or second.band
    share = first.seconds / (first.seconds + second.seconds)
    pairs = zip(first.band, second.band, strict=True)
    return tuple(share * a + (1 - share) * b for a, b in pairs)
