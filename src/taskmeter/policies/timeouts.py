"""How long one attempt may run, and what happens when it runs for longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Final

from taskmeter.config import seconds
from taskmeter.estimation.estimate import Estimate
from taskmeter.estimation.usual import ENOUGH, RARE
from taskmeter.text import duration

#: What may happen: an event alone, another attempt on another worker, or failure of the task.
ACTIONS: Final = ("event", "retry", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The longest that an attempt may run.

    Parameters
    ----------
    after
        Seconds, or a multiple of p99.
    relative
        It is a multiple of the 99th percentile of what completed.
    then
        What happens, one of `ACTIONS`.
    """

    after: float
    relative: bool = False
    then: str = "fail"

    @classmethod
    def of(cls, value: Any, then: str = "fail") -> Limit:
        """Return the limit that a setting or an annotation means.

        Parameters
        ----------
        value
            Seconds, "5 min", "10x" for ten times the p99, or a mapping with ``after``, one of
            these, and perhaps ``then``.
        then
            What happens where the value does not say.

        Raises
        ------
        ValueError
            If it cannot be used.
        """
        options = dict(value) if isinstance(value, Mapping) else {"after": value}
        after, then = options.pop("after", None), options.pop("then", then)
        relative = isinstance(after, str) and after.strip().endswith("x")
        try:
            number = seconds(after.strip()[:-1] if relative else after)
        except ValueError:
            number = 0.0
        if options or then not in ACTIONS or not number:
            raise ValueError(
                f'A timeout cannot be {value!r}; it takes seconds, such as 30 or "5 min", or a '
                f'multiple of the p99, such as "10x"; then: {", ".join(ACTIONS)}.'
            )
        return cls(after=number, relative=relative, then=str(then))

    def allowed(self, estimate: Estimate | None) -> float:
        """Return the seconds that an attempt may run; infinite while that is not known.

        A multiple needs 30 completions. What runs does not count: hung attempts would lengthen it.
        """
        if not self.relative:
            return self.after
        if estimate is None or estimate.sampled < ENOUGH:
            return inf
        return self.after * _p99(estimate)

    def because(self, age: float, estimate: Estimate | None) -> str:
        """Return what is to be said of an attempt that has run for longer."""
        limit = f"its limit of {duration(self.allowed(estimate))}"
        if self.relative and estimate is not None:
            limit += (
                f", {self.after:g} times the p99 of {estimate.completions} completed ones, "
                f"{duration(_p99(estimate))}"
            )
        return f"has run for {duration(age)}, more than {limit}"


def _p99(estimate: Estimate) -> float:
    p99 = min(estimate.exceeded_by(RARE), estimate.last)
    return p99 if isfinite(p99) and p99 > 0 else inf
