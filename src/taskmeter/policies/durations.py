"""Which duration Dask is to reckon with for the tasks of a prefix."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, isfinite, log, sqrt
from typing import Final, Protocol

from taskmeter.text import duration

#: Before this many completions an extrapolated tail rules the mean: writing it then has made
#: stealing twice as slow.
FEWEST: Final = 3
#: A write changes the value by this factor at most, except for the first. One completion among
#: three or more moves an honest mean by more only when it is a straggler, which the next ones put
#: right; a real fourfold change is followed within two writes.
MOST_CHANGE: Final = 2.0
#: Dask counts durations in microseconds, and takes zero for "cannot be stolen"
SHORTEST_SECONDS: Final = 1e-6
#: three years: a longer mean is somebody's broken clock
LONGEST_SECONDS: Final = 1e8
#: what is nearer than this to Dask's value is not written
_SAME: Final = 1e-3
#: after this many completions one counts half in the running mean
_HALF_LIFE: Final = 128.0


class Expected(Protocol):
    """A mean duration in seconds: an ``Estimate``, or an ``Expectation`` shrunk to a prior."""

    @property
    def mean(self) -> float:
        """The expected duration."""

    @property
    def standard_error(self) -> float:
        """Of the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Set a prefix's ``duration_average``."""

    prefix: str
    seconds: float
    because: str


def write(
    prefix: str,
    expected: Expected,
    *,
    completions: int,
    dask_average: float,
    configured: bool,
    last: float | None,
) -> Write | None:
    """Return what to write for a prefix, None to leave it alone.

    Parameters
    ----------
    expected
        Of the prefix.
    completions
        How many it rests on, 3 at least.
    dask_average
        The present ``TaskPrefix.duration_average``, in seconds; negative is Dask's "unknown".
    configured
        Whether ``distributed.scheduler.default-task-durations`` names the prefix: its owner knows
        better, then.
    last
        The seconds written last, None before the first time. What is written is within a factor of
        2 of it.
    """
    if configured or completions < FEWEST or not _sane(expected.mean):
        return None
    wanted = max(expected.mean, SHORTEST_SECONDS)
    seconds = wanted
    if last is not None and _sane(last) and last > 0:
        seconds = min(max(wanted, last / MOST_CHANGE), last * MOST_CHANGE)
    if abs(seconds - dask_average) <= _SAME * seconds:
        return None
    held = "" if seconds == wanted else f", at most {MOST_CHANGE:g} times the last value a write"
    error = expected.standard_error
    give = f" ± {duration(error)}" if isfinite(error) else ""
    before = "did not know" if dask_average < 0 else f"had {duration(dask_average)}"
    return Write(
        prefix=prefix,
        seconds=seconds,
        because=(
            f"{completions} completions and what is running say {duration(wanted)}{give}{held}; "
            f"Dask {before}"
        ),
    )


def _sane(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_SECONDS


class EstimateErrors:
    """Adds up, for one prefix, the errors of our mean and of Dask's as attempts complete.

    The truth is the running mean of completed durations, the new one included, with a half-life
    of 128 completions. It is known with hindsight only, and lags after a change, for both alike.
    """

    def __init__(self) -> None:
        self._count = 0
        #: sums of squared logarithms of figure over truth
        self._ours = self._dask = 0.0
        self._weight = 0.0
        self._total = 0.0

    def add(self, seconds: float, *, ours: float, dask: float) -> None:
        """Note a completion.

        Parameters
        ----------
        seconds
            How long it took; one that is negative or not finite is passed over.
        ours, dask
            The two figures in force just before it ended; that of Dask is what it reckons with,
            its substitute included while its average is unknown. Unless both are positive and
            finite the errors stay as they are.
        """
        if not 0 <= seconds < inf:
            return
        fade = 0.5 ** (1 / _HALF_LIFE)
        self._weight = self._weight * fade + 1
        self._total = self._total * fade + seconds
        truth = max(self._total / self._weight, SHORTEST_SECONDS)
        if 0 < ours < inf and 0 < dask < inf:
            self._count += 1
            self._ours += log(ours / truth) ** 2
            self._dask += log(dask / truth) ** 2

    def factors(self) -> tuple[float, float] | None:
        """Return the typical factors by which (our figure, Dask's) is off; None before the first.

        From the root mean square of logarithms; 1 is perfect.
        """
        if not self._count:
            return None
        return exp(sqrt(self._ours / self._count)), exp(sqrt(self._dask / self._count))
