"""What open pages are fed with: one snapshot and one history for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from time import monotonic

from taskmeter.garbage import no_collection
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.figures.history import History
from taskmeter.views.figures.view import View

#: How often an open page gets new numbers.
INTERVAL_SECONDS = 1.0


class Feed:
    """Return views of a cluster to the pages that are open, and remembers nothing when none is.

    Parameters
    ----------
    take
        Takes a snapshot with details.
    interval
        A view is shared by all pages that ask within so many seconds, but for a tenth.
    """

    def __init__(self, take: Callable[[], Snapshot], interval: float = INTERVAL_SECONDS) -> None:
        self._take = take
        self._fresh_seconds = 0.9 * interval
        self._history = History()
        self._view: View | None = None
        self._taken = 0.0
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
            self._history.clear()
            self._view = None

    def view(self) -> View:
        """Return the present and the last minutes."""
        now = monotonic()
        if self._view is None or now - self._taken >= self._fresh_seconds:
            with no_collection():
                # the old one goes first: then there are hardly more objects afterwards than before
                self._view = None
                snapshot = self._take()
                self._history.add(snapshot)
            self._taken = now
            self._view = View(snapshot=snapshot, moments=self._history.moments)
        return self._view
