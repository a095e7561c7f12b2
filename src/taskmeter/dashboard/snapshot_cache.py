"""What open pages are fed with: one snapshot and one course for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from time import monotonic

from taskmeter.garbage import no_collection
from taskmeter.history.moment import Past, extended
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.figures.view import View

#: How often an open page gets new numbers.
INTERVAL_SECONDS = 1.0


class Feed:
    """Return views of a cluster to the pages that are open, and remember nothing when none is.

    Parameters
    ----------
    take
        Takes a snapshot with details.
    past
        Gives what happened after an instant.
    interval
        Reuse a view for nine tenths of this, so that all open pages cost one snapshot a tick.
    """

    def __init__(
        self, take: Callable[[], Snapshot], past: Past, interval: float = INTERVAL_SECONDS
    ) -> None:
        self._take = take
        self._past = past
        self._fresh_seconds = 0.9 * interval
        self._view: View | None = None
        self._taken = 0.0
        self._taking = asyncio.Lock()
        self._readers: set[Hashable] = set()

    @property
    def readers(self) -> int:
        """Pages that are open and not hidden."""
        return len(self._readers)

    def join(self, reader: Hashable) -> None:
        """Note that a page reads from now on."""
        self._readers.add(reader)

    def leave(self, reader: Hashable) -> None:
        """Note that a page reads no more; after the last one everything is forgotten."""
        self._readers.discard(reader)
        if not self._readers:
            self._view = None

    async def view(self) -> View:
        """Return the present and the course from the beginning."""
        async with self._taking:
            now = monotonic()
            if self._view is not None and now - self._taken < self._fresh_seconds:
                return self._view
            known = () if self._view is None else self._view.moments
            with no_collection():
                # the old one goes first: then there are hardly more objects afterwards than before
                self._view = None
                snapshot = self._take()
            self._taken = now
            # the last moment may have been incomplete
            newer = self._past(known[-1].start if known else None)
            moments = await asyncio.get_running_loop().run_in_executor(
                None, lambda: extended(known, newer())
            )
            view = View(snapshot=snapshot, moments=moments)
            if self._readers:
                self._view = view
            return view
