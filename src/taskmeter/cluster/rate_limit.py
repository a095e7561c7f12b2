"""Pacing: counters that grow no faster than the cluster has threads."""

from __future__ import annotations

from dataclasses import replace

from taskmeter.snapshots.snapshot import Snapshot


class Pacer:
    """Hands out compute seconds at no more than the capacity.

    An attempt that started just after a report is not known before the next report, which then
    brings its first moments at once. Shown as they come, two scrapes in quick succession would see
    more compute than there were thread seconds. The pacer holds the excess back and hands it out
    as soon as there is room: no later than the end of the work, so that totals stay exact.
    """

    def __init__(self) -> None:
        #: {prefix: compute seconds handed out}
        self._given: dict[str, float] = {}
        self._thread_seconds: float | None = None

    def pace(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with compute seconds that may be shown now; they never fall."""
        wanted = {
            name: max(0.0, stats.compute_seconds - self._given.get(name, 0.0))
            for name, stats in snapshot.prefixes.items()
        }
        total = sum(wanted.values())
        if self._thread_seconds is None:
            share = 1.0
        else:
            room = max(0.0, snapshot.thread_seconds - self._thread_seconds)
            share = min(1.0, room / total) if total > 0 else 1.0
        self._thread_seconds = snapshot.thread_seconds
        for name, more in wanted.items():
            self._given[name] = self._given.get(name, 0.0) + share * more
        return replace(
            snapshot,
            prefixes={
                name: replace(stats, compute_seconds=self._given[name])
                for name, stats in snapshot.prefixes.items()
            },
        )
