"""Digests: Dask's own plug for granular values, which hears of every event that Dask times.

A Dask server adds every value that it measures to ``server.digests[name]``, if there are digests,
which is so where crick is installed. Ours stand before those that were there, or in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from typing import Any, Final

from taskmeter.attempts.names import bounded
from taskmeter.protocol.series import ACTIVITIES, COARSE, EXECUTE, Series

#: So many names are kept. Names with a span's identity in them never come to an end.
MOST_NAMES: Final = 10_000

#: Takes a value.
Add = Callable[[float], None]


def series_of(name: Hashable) -> Series | None:
    """Tell what a value is of by the name that Dask gives it; None for what is not of interest.

    Parameters
    ----------
    name
        ``("execute", span, prefix, *activity, unit)`` for what is part of a task,
        ``(context, *activity, unit)`` for what is not (with a span after ``"p2p"``), or a string.
    """
    if not isinstance(name, tuple) or len(name) < 3 or name[-1] not in ACTIVITIES:
        return None
    context, *activity, unit = name
    if context in {EXECUTE, "p2p"}:
        activity = activity[1:]
    prefix = bounded(str(activity.pop(0))) if context == EXECUTE and activity else ""
    if not activity or (context == EXECUTE and activity[0] in COARSE):
        return None
    return Series(
        ACTIVITIES[unit], prefix, bounded("/".join(_words(activity))), bounded(str(context))
    )


def _words(activity: Iterable[Any]) -> Iterator[str]:
    for label in activity:
        # a user's label may be a tuple
        yield from map(str, label if isinstance(label, tuple) else (label,))


class _Tap:
    """The digest of one name: records, then hands on."""

    __slots__ = ("_chained", "add")

    def __init__(self, chained: Any, record: Add | None) -> None:
        self._chained = chained
        self.add: Add
        if record is None:
            self.add = _ignored if chained is None else chained.add
        elif chained is None:
            # nothing but the append of a list
            self.add = record
        else:
            self.add = _both(record, chained.add)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chained, name)

    def __reduce__(self) -> tuple[Any, ...]:
        # copied and pickled, it is what was there
        return copy, (self._chained,)


def _ignored(value: float) -> None:
    """Take a value that nobody wants."""


def _nobody(name: Hashable) -> Add | None:  # noqa: ARG001 (the same for all)
    """Return the recorder of a name that nobody records."""
    return None


def _both(record: Add, add: Add) -> Add:
    def both(value: float) -> None:
        record(value)
        add(value)

    return both


class Digests:
    """Stands where a server keeps its digests, in front of those that were there.

    To those who read them it looks as they did: crick's users lose nothing.

    Parameters
    ----------
    chained
        The digests that were there, by name; None if there were none.
    recorder
        Gives the function that records the values of a name; None if they are not wanted.
    """

    def __init__(self, chained: Any | None, recorder: Callable[[Hashable], Add | None]) -> None:
        self.chained = chained
        self._recorder = recorder
        #: {name: its digest}
        self._taps: dict[Hashable, _Tap] = {}

    def __getitem__(self, name: Hashable) -> _Tap:
        tap = self._taps.get(name)
        if tap is None:
            if len(self._taps) >= MOST_NAMES:
                # they are made anew when they are asked for
                self._taps.clear()
            chained = None if self.chained is None else self.chained[name]
            tap = self._taps[name] = _Tap(chained, self._recorder(name))
        return tap

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.chained or ())

    def __len__(self) -> int:
        return len(self.chained or ())

    def __contains__(self, name: object) -> bool:
        return name in (self.chained or ())

    def close(self) -> None:
        """Record no more; for those who still hold it, values go on to what was there."""
        self._recorder = _nobody
        self._taps.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        # copied and pickled, it is what was there
        return copy, (self.chained,)

    def __getattr__(self, name: str) -> Any:
        # keys(), values(), items(), ... of what was there
        return getattr({} if self.chained is None else self.chained, name)
