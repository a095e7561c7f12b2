"""What is exported of the capacity: compute and idle seconds that never fall and always add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from taskmeter.attempts.increments import nearest_increments


class MonotoneSeconds:
    """Holds compute and idle seconds monotone; their sum is the thread seconds at every look.

    At each look, of the truth T(t) and the growth D of the thread seconds, the increments of what
    is exported are those that are not negative, add up to D, and are nearest to T - E: first those
    of the compute seconds, and of what is left those of the idle seconds, each by the Euclidean
    projection on a simplex. Where everything was known in time, E is T. Where not, the compute
    seconds catch up at the pace of the capacity. What was exported and turned out to be too much
    stays; as much is missing from the idle seconds until the truth has caught up.
    """

    def __init__(self) -> None:
        #: what is exported: {reason: idle seconds}, and thread seconds
        self.idle: dict[str, float] = {}
        self.thread_seconds = 0.0
        #: {prefix: its place in `_compute`}
        self._places: dict[str, int] = {}
        self._compute = np.zeros(0)

    def grow(
        self,
        compute_seconds: Sequence[tuple[str, float]],
        idle_seconds: Mapping[str, float],
        thread_seconds: float,
    ) -> list[float]:
        """Return the compute seconds to export, in the order in which the truth is told.

        Parameters
        ----------
        compute_seconds
            ``[(prefix, compute seconds)]``; each prefix there ever was.
        idle_seconds
            ``{reason: idle seconds}``.
        thread_seconds
            The sum of all.
        """
        for name, _ in compute_seconds:
            self._places.setdefault(name, len(self._places))
        places = [self._places[name] for name, _ in compute_seconds]
        exported = np.zeros(len(self._places))
        exported[: self._compute.size] = self._compute
        truth = np.zeros(len(self._places))
        truth[places] = [seconds for _, seconds in compute_seconds]
        wanted = truth - exported
        growth = max(0.0, thread_seconds - self.thread_seconds)
        computed = np.maximum(wanted, 0.0)
        if computed.sum() > growth:
            computed = nearest_increments(wanted, growth)
            self._compute = exported + computed
        else:
            # not the sum: its rounding would make another figure of each
            self._compute = np.maximum(exported, truth)
        reasons = [*{**self.idle, **idle_seconds}]
        idle = [idle_seconds.get(r, 0.0) - self.idle.get(r, 0.0) for r in reasons]
        left = nearest_increments(np.array(idle), growth - float(computed.sum()))
        self.idle = {
            reason: self.idle.get(reason, 0.0) + more
            for reason, more in zip(reasons, left.tolist(), strict=True)
        }
        self.thread_seconds += growth
        seconds: list[float] = self._compute[places].tolist()
        return seconds
