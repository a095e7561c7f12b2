"""The tally: running totals of one prefix, the only mutable form of `PrefixTotals`."""

from __future__ import annotations

from taskmeter.core.attempts import OUTCOMES, AttemptTotals, PrefixTotals


class Tally:
    """Totals of the ended attempts of one prefix, to which more can be added."""

    __slots__ = (
        "_counts",
        "_seconds",
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

    def add(
        self, outcome: str, seconds: float, seceded_seconds: float = 0.0, cpu_seconds: float = 0.0
    ) -> None:
        """Add one attempt."""
        self._counts[outcome] += 1
        self._seconds[outcome] += seconds
        self.seceded_seconds += seceded_seconds
        self.cpu_seconds += cpu_seconds
        if outcome != "ok":
            self.wasted_cpu_seconds += cpu_seconds

    def add_difference(self, new: PrefixTotals, old: PrefixTotals | None) -> None:
        """Add what `new` holds beyond `old`."""
        for outcome in OUTCOMES:
            totals = new.attempts[outcome]
            if old is not None:
                totals -= old.attempts[outcome]
            self._counts[outcome] += totals.count
            self._seconds[outcome] += totals.seconds
        before = PrefixTotals() if old is None else old
        self.seceded_seconds += max(0.0, new.seceded_seconds - before.seceded_seconds)
        self.cpu_seconds += max(0.0, new.cpu_seconds - before.cpu_seconds)
        self.wasted_cpu_seconds += max(0.0, new.wasted_cpu_seconds - before.wasted_cpu_seconds)

    def totals(self) -> PrefixTotals:
        """Give the totals as they stand."""
        return PrefixTotals(
            attempts={
                o: AttemptTotals(count=self._counts[o], seconds=self._seconds[o]) for o in OUTCOMES
            },
            seceded_seconds=self.seceded_seconds,
            cpu_seconds=self.cpu_seconds,
            wasted_cpu_seconds=self.wasted_cpu_seconds,
        )
