"""What a picture is made of: the present, and the last minutes."""

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
        What came in the last minutes, the oldest first; empty at first, and where there is no
        history, as in a report.
    """

    snapshot: Snapshot
    moments: tuple[Moment, ...] = ()
