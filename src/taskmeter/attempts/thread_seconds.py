"""Thread seconds: the integral of a number of threads over time."""

from __future__ import annotations


class ThreadSeconds:
    """The capacity that was there, exact between changes.

    Parameters
    ----------
    nthreads
        Threads at the beginning.
    at
        When it begins, on a monotonic clock.
    """

    def __init__(self, nthreads: int, at: float) -> None:
        self.nthreads = nthreads
        self._seconds = 0.0
        #: when they changed last
        self.at = at

    def change(self, nthreads: int, at: float) -> None:
        """Note how many threads there are from `at` on; a clock that steps back adds nothing."""
        self._seconds = self.value(at)
        self.at = max(self.at, at)
        self.nthreads = nthreads

    def value(self, now: float) -> float:
        """Return the thread seconds up to `now`."""
        return self._seconds + self.nthreads * max(0.0, now - self.at)
