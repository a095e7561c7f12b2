"""Digests: Dask's own plug for granular values, which hears of every event that Dask times.

A Dask server adds every value that it measures to ``server.digests[name]``, if there are digests,
which is so where crick is installed. Ours stand before those that were there, or in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from taskmeter.core.series import ACTIVITY, DURATION, Series

#: What Dask makes of the seconds of an attempt that did not end ok; its own duration says it too.
_COARSE = frozenset({"failed", "cancelled"})

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
    if not isinstance(name, tuple) or len(name) < 3 or name[-1] != "seconds":
        return None
    context, *activity, _ = name
    if context in {"execute", "p2p"}:
        activity = activity[1:]
    prefix = ""
    if context == "execute":
        if len(activity) < 2 or activity[1] in _COARSE:
            return None
        prefix = str(activity.pop(0))
    what = "/".join(map(str, activity))
    if prefix:
        return Series(DURATION, prefix, what)
    return Series(ACTIVITY, "", what, str(context))


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


def _ignored(value: float) -> None:
    """Take a value that nobody wants."""


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
            chained = None if self.chained is None else self.chained[name]
            tap = self._taps[name] = _Tap(chained, self._recorder(name))
        return tap

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.chained or ())

    def __len__(self) -> int:
        return len(self.chained or ())

    def __contains__(self, name: object) -> bool:
        return name in (self.chained or ())

    def __getattr__(self, name: str) -> Any:
        # keys(), values(), items(), ... of what was there
        return getattr({} if self.chained is None else self.chained, name)
