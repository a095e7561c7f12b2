"""What a picture is made of: the present, and the course so far."""

from __future__ import annotations

from dataclasses import dataclass

from taskmeter.history.moment import Moment
from taskmeter.snapshots.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One look at a cluster.

    Parameters
    ----------
    snapshot
        Everything up to now, with details.
    moments
        The course from the beginning, the oldest first; older ones are longer. Empty at first.
    """

    snapshot: Snapshot
    moments: tuple[Moment, ...] = ()
