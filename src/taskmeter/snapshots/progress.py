"""Progress: how far some work is, prefix by prefix, and when it will be done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from taskmeter.snapshots.expected import Remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixProgress:
    """How far the tasks of a prefix are.

    Parameters
    ----------
    left, done
        Tasks that have not ended, and tasks whose result is there.
    expected_seconds
        What one is expected to take; None where nothing is known.
    """

    left: int = 0
    done: int = 0
    expected_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far some work is.

    Parameters
    ----------
    prefixes
        ``{prefix: PrefixProgress}``
    remaining
        How long the rest will take; None if there is none, or that cannot be told.
    unknown
        Tasks that were asked about and that the scheduler does not know.
    """

    prefixes: Mapping[str, PrefixProgress] = field(default_factory=dict)
    remaining: Remaining | None = None
    unknown: int = 0

    @property
    def left(self) -> int:
        """Tasks that have not ended."""
        return self.unknown + sum(prefix.left for prefix in self.prefixes.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, numbers and strings."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Progress:
        """Make the one that `to_dict` was called on."""
        remaining = data["remaining"]
        return cls(
            prefixes={name: PrefixProgress(**row) for name, row in data["prefixes"].items()},
            remaining=None
            if remaining is None
            else Remaining(**{**remaining, "responsible": tuple(remaining["responsible"])}),
            unknown=data["unknown"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """How much of a prefix's tasks is done."""

    prefix: str
    done: int
    total: int
    expected_seconds: float | None = None


class Bars:
    """Makes bars of what is told of some work again and again.

    The scheduler forgets tasks that nobody needs any more, so what it was is remembered here.

    Parameters
    ----------
    chosen
        It is about chosen tasks, all of which were told of the first time. If not, `done` counts
        from any beginning.
    """

    def __init__(self, *, chosen: bool) -> None:
        self._chosen = chosen
        #: {prefix: tasks there are}, of chosen ones
        self._totals: dict[str, int] = {}
        #: {prefix: tasks that were done at first}, otherwise
        self._before: dict[str, int] | None = None
        self._expected: dict[str, float | None] = {}

    def add(self, now: Progress) -> tuple[Bar, ...]:
        """Return the bars after one more look, those of most tasks first."""
        for name, one in now.prefixes.items():
            self._expected[name] = one.expected_seconds
        found = self._of_chosen(now) if self._chosen else self._of_all(now)
        return tuple(sorted(found, key=lambda bar: (-bar.total, bar.prefix)))

    def _of_chosen(self, now: Progress) -> list[Bar]:
        for name, one in now.prefixes.items():
            self._totals[name] = max(self._totals.get(name, 0), one.left + one.done)
        none = PrefixProgress()
        return [
            self._bar(name, total - now.prefixes.get(name, none).left, total)
            for name, total in self._totals.items()
            if total
        ]

    def _of_all(self, now: Progress) -> list[Bar]:
        if self._before is None:
            self._before = {name: one.done for name, one in now.prefixes.items()}
        found = []
        for name, one in now.prefixes.items():
            done = max(0, one.done - self._before.get(name, 0))
            if done or one.left:
                found.append(self._bar(name, done, done + one.left))
        return found

    def _bar(self, name: str, done: int, total: int) -> Bar:
        return Bar(prefix=name, done=done, total=total, expected_seconds=self._expected.get(name))
