"""What failed, and with which exception."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Attempts of a prefix that failed with one type of exception.

    Parameters
    ----------
    prefix
        Whose attempts.
    exception
        The type, with its module where that is not built in; ``__other__`` for the types beyond
        those that are kept apart, and then `message` begins with the type of the latest.
    message, traceback
        Of the latest; cut at 200 and 2,000 characters.
    count
        Attempts.
    first, last
        When the first and the latest of them failed (Unix time, clock of the scheduler).
    worker, key
        Of the latest.
    """

    prefix: str
    exception: str
    message: str = ""
    traceback: str = ""
    count: int = 0
    first: float = 0.0
    last: float = 0.0
    worker: str = ""
    key: str = ""


def failures_since(newer: Iterable[Failure], older: Iterable[Failure]) -> tuple[Failure, ...]:
    """Return what failed after `older`, the most frequent first."""
    before = {(failure.prefix, failure.exception): failure.count for failure in older}
    added = [
        replace(failure, count=more)
        for failure in newer
        if (more := failure.count - before.get((failure.prefix, failure.exception), 0)) > 0
    ]
    return tuple(sorted(added, key=lambda failure: -failure.count))
