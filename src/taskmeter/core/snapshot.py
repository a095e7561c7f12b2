"""The snapshot: everything known at one instant, immutable and cumulative."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from taskmeter.core.attempts import OUTCOMES, AttemptTotals, InFlight, no_attempts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStats:
    """What one prefix cost up to an instant.

    Parameters
    ----------
    compute_seconds
        Compute seconds of all attempts, those in flight included.
    seceded_seconds
        The same for the time after a secede.
    executing
        Attempts in flight, seceded ones included.
    attempts
        Ended attempts, by outcome.
    oldest_start
        When the oldest attempt in flight started (Unix time); None when there is none.
    """

    compute_seconds: float = 0.0
    seceded_seconds: float = 0.0
    executing: int = 0
    attempts: Mapping[str, AttemptTotals] = field(default_factory=no_attempts)
    oldest_start: float | None = None

    @property
    def ended(self) -> int:
        """Ended attempts of every outcome."""
        return sum(totals.count for totals in self.attempts.values())

    @property
    def wasted_seconds(self) -> float:
        """Compute seconds of the attempts that ended in any other way than ok."""
        return sum(totals.seconds for o, totals in self.attempts.items() if o != "ok")

    def since(self, older: PrefixStats) -> PrefixStats:
        """Give what was added after `older`; what is in flight stays as it is now."""
        return replace(
            self,
            compute_seconds=max(0.0, self.compute_seconds - older.compute_seconds),
            seceded_seconds=max(0.0, self.seceded_seconds - older.seceded_seconds),
            attempts={o: self.attempts[o] - older.attempts[o] for o in OUTCOMES},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """How well one worker is metered.

    Parameters
    ----------
    address, name
        Which worker.
    nthreads
        Its execution slots.
    metered
        It reports by itself. If not, its figures are estimated from Dask's heartbeats.
    report_age_seconds
        Time since its last report; None if there never was one.
    version
        The version of taskmeter it runs; empty if it does not.
    """

    address: str
    name: str = ""
    nthreads: int = 0
    metered: bool = False
    report_age_seconds: float | None = None
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything known at one instant. It never changes, can be pickled, and is cumulative.

    Parameters
    ----------
    at
        The instant (Unix time, clock of the process that took it).
    start
        The instant the figures count from.
    prefixes
        ``{prefix: PrefixStats}``, in the order they were first seen.
    thread_seconds
        The capacity from `start` to `at`.
    nthreads
        Threads there are now.
    running
        Attempts in flight, oldest first.
    workers
        One `WorkerStatus` for every worker.
    invalid_samples
        Samples left out of every figure.
    errors
        ``{where: times}`` something in taskmeter went wrong and was contained.
    """

    at: float
    start: float
    prefixes: Mapping[str, PrefixStats] = field(default_factory=dict)
    thread_seconds: float = 0.0
    nthreads: int = 0
    running: tuple[InFlight, ...] = ()
    workers: tuple[WorkerStatus, ...] = ()
    invalid_samples: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)

    @property
    def compute_seconds(self) -> float:
        """Compute seconds of every prefix together."""
        return math.fsum(p.compute_seconds for p in self.prefixes.values())

    @property
    def seceded_seconds(self) -> float:
        """Seceded seconds of every prefix together."""
        return math.fsum(p.seceded_seconds for p in self.prefixes.values())

    @property
    def executing(self) -> int:
        """Attempts in flight in the whole cluster."""
        return sum(p.executing for p in self.prefixes.values())

    @property
    def utilisation(self) -> float:
        """Compute seconds for each thread second; nan where there was no capacity."""
        return self.compute_seconds / self.thread_seconds if self.thread_seconds else math.nan

    @property
    def elapsed_seconds(self) -> float:
        """The length of the time that the figures are about."""
        return self.at - self.start

    def since(self, older: Snapshot) -> Snapshot:
        """Give what was added between `older` and this snapshot.

        Prefixes to which nothing was added, and of which nothing is in flight, are left out.
        Where `older` counts from another beginning (taskmeter was installed anew in between),
        the whole of this snapshot was added.

        Parameters
        ----------
        older
            An earlier snapshot of the same cluster.

        Raises
        ------
        ValueError
            If `older` is not older, or is itself a window and no cumulative snapshot.
        """
        if older.at > self.at:
            raise ValueError("since() wants an older snapshot, but was given a newer one.")
        if older.at <= self.start:
            return self
        if older.start != self.start:
            raise ValueError("since() wants a snapshot that counts from the same beginning.")
        nothing = PrefixStats()
        added = {
            name: stats.since(older.prefixes.get(name, nothing))
            for name, stats in self.prefixes.items()
        }
        return replace(
            self,
            start=older.at,
            prefixes={
                n: p for n, p in added.items() if p.compute_seconds or p.executing or p.ended
            },
            thread_seconds=max(0.0, self.thread_seconds - older.thread_seconds),
            invalid_samples=max(0, self.invalid_samples - older.invalid_samples),
            errors={
                where: times - older.errors.get(where, 0)
                for where, times in self.errors.items()
                if times > older.errors.get(where, 0)
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the snapshot as JSON-able lists, dicts, numbers and strings."""
        plain = asdict(self)
        plain["prefixes"] = [
            {"prefix": name, **asdict(stats)} for name, stats in self.prefixes.items()
        ]
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Snapshot:
        """Make the snapshot that `to_dict` was called on; unknown fields are passed over.

        Raises
        ------
        ValueError
            If `plain` is not a snapshot.
        """
        try:
            found = _known(cls, plain)
            found["prefixes"] = {row["prefix"]: _prefix_stats(row) for row in plain["prefixes"]}
            found["running"] = tuple(
                InFlight(**_known(InFlight, row)) for row in plain.get("running", ())
            )
            found["workers"] = tuple(
                WorkerStatus(**_known(WorkerStatus, row)) for row in plain.get("workers", ())
            )
            return cls(**found)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"This is not a taskmeter snapshot: {error!r}.") from error

    def to_pandas(self) -> pd.DataFrame:
        """Give a data frame with one row a prefix.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd  # noqa: PLC0415 (optional: pip install taskmeter[pandas])
        except ImportError as error:
            raise ImportError(
                "to_pandas() needs pandas: pip install 'taskmeter[pandas]'."
            ) from error
        rows = {
            name: {
                "compute_seconds": p.compute_seconds,
                "seceded_seconds": p.seceded_seconds,
                "executing": p.executing,
                **{o: p.attempts[o].count for o in OUTCOMES},
                **{f"{o}_seconds": p.attempts[o].seconds for o in OUTCOMES},
            }
            for name, p in self.prefixes.items()
        }
        frame = pd.DataFrame.from_dict(rows, orient="index")
        frame.index.name = "prefix"
        return frame


def _known(cls: type, plain: Mapping[str, Any]) -> dict[str, Any]:
    names = {f.name for f in fields(cls)}
    return {name: value for name, value in plain.items() if name in names}


def _prefix_stats(row: Mapping[str, Any]) -> PrefixStats:
    found = _known(PrefixStats, row)
    found["attempts"] = {
        outcome: AttemptTotals(**_known(AttemptTotals, row["attempts"].get(outcome, {})))
        for outcome in OUTCOMES
    }
    return PrefixStats(**found)
