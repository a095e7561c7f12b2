"""What a recording is told: everything since its last look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

from taskmeter.history.moment import Moment
from taskmeter.protocol.wire import pack_snapshot, unpack_snapshot
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.snapshot import Snapshot

_NAMES: Final = EndedAttempt.__slots__
#: ten times as fast as `dataclasses.astuple`
_row: Final = attrgetter(*_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened on the cluster once.

    Parameters
    ----------
    at
        When (Unix time, the scheduler's clock).
    kind
        What, in Dask's words: ``"add-worker"``, ``"remove-worker"``, ``"late-attempt"``, ...
    data
        The rest of what is known of it.
    """

    at: float
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Up to where a reader knows everything.

    Parameters
    ----------
    moments_since, events_since
        Moments that stop, and events, after these instants (Unix time) are new.
    ended_after
        Ended attempts with a larger number are new.
    """

    moments_since: float = 0.0
    events_since: float = 0.0
    ended_after: int = 0

    def after(self, news: News) -> Cursor:
        """Return where a reader stands that has got some news.

        The last moment may go on, so it is asked for again.
        """
        return Cursor(
            moments_since=news.moments[-1].start if news.moments else self.moments_since,
            events_since=max((e.at for e in news.events), default=self.events_since),
            ended_after=max((a.number for a in news.ended), default=self.ended_after),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What is new since a `Cursor`.

    Parameters
    ----------
    moments
        What was done over time, the oldest first.
    ended
        Attempts that ended: all, or a fair sample.
    events
        In the order of time.
    snapshot
        Everything up to now; None where it was not asked for.
    """

    moments: tuple[Moment, ...] = ()
    ended: tuple[EndedAttempt, ...] = ()
    events: tuple[Event, ...] = ()
    snapshot: Snapshot | None = None

    def since(self, base: Snapshot) -> News:
        """Return what of it is younger than a snapshot."""
        return replace(
            self,
            moments=tuple(
                m.part(base.at, m.stop) if m.start < base.at else m
                for m in self.moments
                if m.stop > base.at
            ),
            ended=tuple(a for a in self.ended if a.start + a.seconds > base.at),
            events=tuple(e for e in self.events if e.at > base.at),
            snapshot=None if self.snapshot is None else self.snapshot.since(base),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, numbers, strings and bytes."""
        return {
            "moments": [moment.to_dict() for moment in self.moments],
            "ended": list(map(_row, self.ended)),
            "events": [asdict(event) for event in self.events],
            "snapshot": None if self.snapshot is None else pack_snapshot(self.snapshot),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> News:
        """Make the news that `to_dict` was called on."""
        snapshot = data["snapshot"]
        return cls(
            moments=tuple(map(Moment.from_dict, data["moments"])),
            ended=tuple(
                EndedAttempt(**dict(zip(_NAMES, row, strict=True))) for row in data["ended"]
            ),
            events=tuple(Event(**event) for event in data["events"]),
            snapshot=None if snapshot is None else unpack_snapshot(snapshot),
        )
