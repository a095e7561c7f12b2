"""The mutable form of `PrefixTotals`: running totals of what ended in one prefix."""

from __future__ import annotations

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, PrefixTotals

_NOTHING = PrefixTotals()


class Tally:
    """Totals of the ended attempts of one prefix."""

    __slots__ = (
        "compute_seconds", "counts", "cpu_seconds", "seceded_seconds", "seconds",
        "wasted_cpu_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        #: {outcome: attempts}
        self.counts = dict.fromkeys(OUTCOMES, 0)
        #: {outcome: compute seconds}
        self.seconds = dict.fromkeys(OUTCOMES, 0.0)
        #: of every outcome together
        self.compute_seconds = 0.0
        self.seceded_seconds = 0.0
        self.cpu_seconds = 0.0
        self.wasted_cpu_seconds = 0.0

    def add(
        self,
        outcome: str,
        compute_seconds: float,
        seceded_seconds: float = 0.0,
        cpu_seconds: float = 0.0,
        *,
        times: int = 1,
    ) -> None:
        """Add an attempt, or take it away with ``times=-1``.

        CPU time of one thread is part of the time that it ran the attempt. What its clock says
        beyond that is Dask's own work around the code.
        """
        cpu = min(cpu_seconds, compute_seconds + seceded_seconds)
        self.counts[outcome] += times
        self.seconds[outcome] += times * compute_seconds
        self.compute_seconds += times * compute_seconds
        self.seceded_seconds += times * seceded_seconds
        self.cpu_seconds += times * cpu
        if outcome != "ok":
            self.wasted_cpu_seconds += times * cpu

    def add_totals(self, totals: PrefixTotals) -> None:
        """Add what ended elsewhere."""
        for outcome, attempts in totals.attempts.items():
            if attempts.count:
                self.counts[outcome] += attempts.count
                self.seconds[outcome] += attempts.seconds
                self.compute_seconds += attempts.seconds
        self.seceded_seconds += totals.seceded_seconds
        self.cpu_seconds += totals.cpu_seconds
        self.wasted_cpu_seconds += totals.wasted_cpu_seconds

    def relabel(self, old: str, new: str, count: int, compute_seconds: float) -> None:
        """Count attempts that were added under one outcome under another one."""
        self.counts[old] -= count
        self.counts[new] += count
        self.seconds[old] -= compute_seconds
        self.seconds[new] += compute_seconds

    def totals(self, before: PrefixTotals = _NOTHING) -> PrefixTotals:
        """Return the totals as they stand.

        Parameters
        ----------
        before
            Earlier ones, of which what has not changed is used again.
        """
        attempts = dict(before.attempts)
        for outcome, known in before.attempts.items():
            # what was taken back may leave a rounding behind
            count, seconds = self.counts[outcome], max(0.0, self.seconds[outcome])
            if count != known.count or seconds != known.seconds:
                attempts[outcome] = AttemptTotals(count=count, seconds=seconds)
        return PrefixTotals(
            attempts=attempts,
            seceded_seconds=self.seceded_seconds,
            cpu_seconds=self.cpu_seconds,
            wasted_cpu_seconds=self.wasted_cpu_seconds,
        )
