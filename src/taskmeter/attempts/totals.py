"""The tally: running totals of one prefix, the only mutable form of `PrefixTotals`."""

from __future__ import annotations

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, PrefixTotals

_NOTHING = PrefixTotals()


class Tally:
    """Totals of the ended attempts of one prefix, to which more can be added."""

    __slots__ = (
        "_counts",
        "_seconds",
        "_totals",
        "changed",
        "cpu_seconds",
        "seceded_seconds",
        "wasted_cpu_seconds",
    )

    def __init__(self) -> None:
        self._counts = dict.fromkeys(OUTCOMES, 0)
        self._seconds = dict.fromkeys(OUTCOMES, 0.0)
        self.seceded_seconds = 0.0
        self.cpu_seconds = 0.0
        self.wasted_cpu_seconds = 0.0
        #: the owner's number of the latest change
        self.changed = 0
        #: what `totals` gave, while nothing has been added
        self._totals: PrefixTotals | None = None

    def add(
        self, outcome: str, seconds: float, seceded_seconds: float = 0.0, cpu_seconds: float = 0.0
    ) -> None:
        """Add one attempt."""
        self._totals = None
        self._counts[outcome] += 1
        self._seconds[outcome] += seconds
        self.seceded_seconds += seceded_seconds
        self.cpu_seconds += cpu_seconds
        if outcome != "ok":
            self.wasted_cpu_seconds += cpu_seconds

    def add_difference(self, new: PrefixTotals, old: PrefixTotals | None) -> None:
        """Add what `new` holds beyond `old`."""
        self._totals = None
        before = _NOTHING if old is None else old
        for outcome in OUTCOMES:
            now, then = new.attempts[outcome], before.attempts[outcome]
            self._counts[outcome] += max(0, now.count - then.count)
            self._seconds[outcome] += max(0.0, now.seconds - then.seconds)
        self.seceded_seconds += max(0.0, new.seceded_seconds - before.seceded_seconds)
        self.cpu_seconds += max(0.0, new.cpu_seconds - before.cpu_seconds)
        self.wasted_cpu_seconds += max(0.0, new.wasted_cpu_seconds - before.wasted_cpu_seconds)

    def totals(self) -> PrefixTotals:
        """Return the totals as they stand."""
        if self._totals is None:
            self._totals = PrefixTotals(
                attempts={
                    o: AttemptTotals(count=self._counts[o], seconds=self._seconds[o])
                    for o in OUTCOMES
                },
                seceded_seconds=self.seceded_seconds,
                cpu_seconds=self.cpu_seconds,
                wasted_cpu_seconds=self.wasted_cpu_seconds,
            )
        return self._totals
