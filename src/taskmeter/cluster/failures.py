"""What failed on the cluster, by prefix and type of exception."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from taskmeter.attempts.attempt import OTHER
from taskmeter.attempts.exception_text import other_message
from taskmeter.protocol.message import Failed
from taskmeter.snapshots.failure import Failure

#: So many types of exceptions of a prefix are kept apart, and so many kinds in all; the rest of a
#: prefix is one more, and that of further prefixes one for all of them.
MOST_TYPES: Final = 20
MOST_KINDS: Final = 200


class _Kind:
    """Failures of one kind; instants are in Unix time."""

    __slots__ = ("count", "first", "last", "latest", "worker")

    def __init__(self) -> None:
        self.count = 0
        self.first = self.last = 0.0
        self.latest = Failed(prefix="", exception="")
        self.worker = ""


class Failures:
    """Counts every failed attempt once, and keeps the latest of each kind."""

    def __init__(self) -> None:
        #: {(prefix, exception): what failed}, in the order they were first seen
        self._kinds: dict[tuple[str, str], _Kind] = {}
        #: {prefix: types of exceptions that are kept apart}, and how many rests there are
        self._types: Counter[str] = Counter()
        self._rests = 0
        #: what was read last; None since something changed
        self._read: tuple[Failure, ...] | None = ()

    def add(self, prefix: str, failed: Failed, worker: str, at: float) -> tuple[str, str]:
        """Add attempts that failed; return the kind that they count under.

        Parameters
        ----------
        prefix
            What they count under.
        failed
            The attempts.
        worker
            Where.
        at
            The Unix time that their ages count to.
        """
        name = self._admit(prefix, failed.exception)
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = _Kind()
            kind.first = at - failed.first_age
        kind.count += failed.count
        kind.first = min(kind.first, at - failed.first_age)
        last = at - failed.last_age
        if last >= kind.last:
            kind.last, kind.latest, kind.worker = last, failed, worker
        self._read = None
        return name

    def take_back(self, kinds: Iterable[tuple[str, str]]) -> None:
        """Uncount attempts, one a kind, since their worker is about to tell them."""
        for name in kinds:
            self._kinds[name].count -= 1
            self._read = None

    def _admit(self, prefix: str, exception: str) -> tuple[str, str]:
        name = prefix, exception
        if name in self._kinds:
            return name
        named = len(self._kinds) - self._rests
        if exception != OTHER and named < MOST_KINDS and self._types[prefix] < MOST_TYPES:
            self._types[prefix] += 1
            return name
        name = prefix, OTHER
        if name not in self._kinds:
            if self._rests >= MOST_KINDS:
                name = OTHER, OTHER
            self._rests += name not in self._kinds
        return name

    def read(self) -> tuple[Failure, ...]:
        """Return every kind, the most frequent first; the same object while nothing changes."""
        if self._read is None:
            kinds = sorted(self._kinds.items(), key=lambda item: -item[1].count)
            self._read = tuple(_failure(*name, kind) for name, kind in kinds if kind.count > 0)
        return self._read


def _failure(prefix: str, exception: str, kind: _Kind) -> Failure:
    latest = kind.latest
    message = latest.message
    if exception == OTHER and latest.exception != OTHER:
        message = other_message(latest.exception, message)
    return Failure(
        prefix=prefix,
        exception=exception,
        message=message,
        traceback=latest.traceback,
        count=kind.count,
        first=kind.first,
        last=kind.last,
        worker=kind.worker,
        key=latest.key,
    )
