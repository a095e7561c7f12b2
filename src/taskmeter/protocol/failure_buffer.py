"""What failed between two messages, by prefix and type of exception."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from taskmeter.attempts.attempt import OTHER
from taskmeter.attempts.exception_text import other_message
from taskmeter.protocol.message import Failed

#: So many kinds go into a message by name; the rest of a prefix shares one, and of further prefixes
#: too.
MOST_KINDS: Final = 64


class _Kind(NamedTuple):
    """Failures of one kind: how many, when, and the latest of them."""

    times: int
    first: float
    last: float
    latest: Failed


class FailureBuffer:
    """Counts failures, each exactly once, until `take` takes them."""

    def __init__(self) -> None:
        #: {(prefix, exception): what failed}
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def add(self, failed: Failed, at: float) -> None:
        """Add an attempt that failed at an instant."""
        kinds = self._kinds
        name = failed.prefix, failed.exception
        if name not in kinds and len(kinds) >= MOST_KINDS:
            message = other_message(failed.exception, failed.message)
            failed = replace(failed, exception=OTHER, message=message)
            name = failed.prefix, OTHER
            if name not in kinds and len(kinds) >= 2 * MOST_KINDS:
                name = OTHER, OTHER
        known = kinds.get(name)
        count, first = (0, at) if known is None else (known.times, known.first)
        kinds[name] = _Kind(count + 1, first, at, failed)

    def take(self, now: float) -> tuple[Failed, ...]:
        """Return what was added since the last call, and forget it; ages count to `now`."""
        kinds, self._kinds = self._kinds, {}
        return tuple(
            replace(
                kind.latest,
                prefix=prefix,
                count=kind.times,
                first_age=max(0.0, now - kind.first),
                last_age=max(0.0, now - kind.last),
            )
            for (prefix, _), kind in kinds.items()
        )
