"""The snapshot: everything known at one instant, immutable and cumulative."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from taskmeter.attempts.attempt import (
    OUTCOMES,
    STALLED_SECONDS,
    AttemptTotals,
    InFlight,
    no_attempts,
)
from taskmeter.attempts.lazy_mapping import LazyMapping
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.quantiles import QUANTILES, quantiles
from taskmeter.estimation.worker_pace import WorkerSpeed
from taskmeter.snapshots import codec, html
from taskmeter.snapshots.costs import Costs, costs_since
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.expected import LateAttempt, Remaining
from taskmeter.snapshots.failure import Failure, failures_since
from taskmeter.snapshots.stats import (
    COMPUTE,
    ActivityTotals,
    GroupStats,
    PrefixStats,
    Transfers,
    activities_since,
    seconds_since,
)
from taskmeter.snapshots.window import added_seconds

if TYPE_CHECKING:
    import pandas as pd


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
    thread_seconds, compute_seconds
        Its capacity and its compute seconds since its meter began.
    idle_seconds
        ``{reason: idle thread seconds}`` since then; with the compute seconds they make up the
        capacity.
    attempts
        Ended attempts there, by outcome.
    cpu_seconds
        CPU time of its attempts, where it can be measured.
    durations
        Of its ok attempts, within 4.4 %.
    late
        Attempts there that were found to be late.
    speed
        How fast it is, compared with the others; None where that is not known.
    """

    address: str
    name: str = ""
    nthreads: int = 0
    metered: bool = False
    report_age_seconds: float | None = None
    version: str = ""
    thread_seconds: float = 0.0
    compute_seconds: float = 0.0
    idle_seconds: Mapping[str, float] = field(default_factory=dict)
    attempts: Mapping[str, AttemptTotals] = field(default_factory=no_attempts)
    cpu_seconds: float = 0.0
    durations: Distribution = field(default_factory=Distribution)
    late: int = 0
    speed: WorkerSpeed | None = None

    def __repr__(self) -> str:
        return html.text_of_worker(self)


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
    groups
        ``{group: GroupStats}``, the one that was active last at the end; also groups that Dask has
        forgotten.
    transfers
        Of task results between workers.
    activities
        ``{(context, activity): distribution of seconds}`` of what Dask times outside of tasks,
        such as ``("gather-dep", "network")`` or ``("get-data", "serialize")``.
    activity_totals
        ``{(context, activity): totals}`` of the same.
    idle_seconds
        ``{reason: thread seconds}`` in which no task's code held a thread, by why: see
        `taskmeter.attempts.idle_reasons`. With the compute seconds of all prefixes they make up
        `thread_seconds`; ``"unknown"`` is what no worker's meter accounts for.
    worker_state_seconds, worker_states
        ``{state: worker seconds}`` and ``{state: workers now}`` of idle, partially_saturated,
        saturated, paused, retiring.
    worker_versions
        ``{version of taskmeter: workers that report by themselves}``; ``""`` has those that do not.
    workers_joined, workers_left
        Workers that came since the start, and ``{reason: workers that went}``: retired, closed,
        timeout, lost.
    late
        Attempts in flight that last longer than all but 1 % of their kind, the oldest first.
    failures
        What failed with which exception, the most frequent first; at most 200 kinds, and the rest
        of a prefix as ``__other__``.
    costs
        ``{(kind, name): cost}`` of the attempts that ended: by the kinds ``"span"``, ``"client"``
        and ``"annotation"``, whose names are spans with slashes between their tags, clients'
        identities, and ``key=value``. Each attempt counts for one span, one client (or a share of
        several that sent tasks of the same name) and each of its annotations. An empty name is what
        is not known.
    price_per_thread_hour
        What a thread costs an hour, busy or idle, in any currency; None where nobody said.
    ended
        The latest attempts that ended, the oldest first: a fair sample of the ok ones.
    remaining
        How long all that the scheduler has to do will take; None if it cannot be told.
    loop_turns
        ``{part: distribution of seconds}``: how long parts of taskmeter held the scheduler's event
        loop, each time.
    reported_at
        The figures that workers report are as of this instant (Unix time), that of the latest
        report; None if they are extrapolated to `at`.
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
    groups: Mapping[str, GroupStats] = field(default_factory=dict)
    transfers: Transfers = field(default_factory=Transfers)
    activities: Mapping[tuple[str, str], Distribution] = field(default_factory=dict)
    activity_totals: Mapping[tuple[str, str], ActivityTotals] = field(default_factory=dict)
    idle_seconds: Mapping[str, float] = field(default_factory=dict)
    worker_state_seconds: Mapping[str, float] = field(default_factory=dict)
    worker_states: Mapping[str, int] = field(default_factory=dict)
    worker_versions: Mapping[str, int] = field(default_factory=dict)
    workers_joined: int = 0
    workers_left: Mapping[str, int] = field(default_factory=dict)
    late: tuple[LateAttempt, ...] = ()
    failures: tuple[Failure, ...] = ()
    ended: tuple[EndedAttempt, ...] = ()
    costs: Costs = field(default_factory=dict)
    price_per_thread_hour: float | None = None
    remaining: Remaining | None = None
    loop_turns: Mapping[str, Distribution] = field(default_factory=dict)
    reported_at: float | None = None

    def stalled(self, threshold_seconds: float = STALLED_SECONDS) -> tuple[InFlight, ...]:
        """Return the attempts whose CPU clock has not advanced for so long, the longest first.

        They wait for something, or hang. Where CPU time cannot be measured there are none.
        """
        found = (
            a
            for a in self.running
            if a.cpu_seconds is not None and a.still_seconds >= threshold_seconds
        )
        return tuple(sorted(found, key=lambda a: -a.still_seconds))

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of every prefix together."""
        return math.fsum(p.cpu_seconds for p in self.prefixes.values())

    @property
    def spans(self) -> dict[tuple[str, ...], GroupStats]:
        """``{span: its groups together}``, of the groups that belong to one."""
        found: dict[tuple[str, ...], GroupStats] = {}
        for group in self.groups.values():
            if group.span:
                known = found.get(group.span)
                found[group.span] = group if known is None else known.merge(group)
        return found

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

    def _repr_html_(self) -> str:
        return html.of_snapshot(self)

    def __repr__(self) -> str:
        return html.text_of_snapshot(self)

    def since(self, older: Snapshot) -> Snapshot:
        """Return what was added between `older` and this snapshot.

        Prefixes to which nothing was added, and of which nothing is in flight, are left out.
        Where `older` counts from another beginning (taskmeter was installed anew in between),
        the whole of this snapshot was added. A later snapshot may know better about the past; the
        window is the nearest to the difference that is possible: nothing in it is negative, and
        compute and idle seconds add up to its thread seconds. Distributions are subtracted when
        they are read.

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
        compute, idle = added_seconds(self.seconds, older.seconds)
        return replace(
            self,
            start=older.at,
            prefixes=LazyMapping(
                {
                    name: (stats, before, compute[name])
                    for name, stats in self.prefixes.items()
                    if stats.grew_after(before := older.prefixes.get(name, nothing))
                },
                _prefix_since,
            ),
            thread_seconds=max(0.0, self.thread_seconds - older.thread_seconds),
            invalid_samples=max(0, self.invalid_samples - older.invalid_samples),
            errors={
                where: times - older.errors.get(where, 0)
                for where, times in self.errors.items()
                if times > older.errors.get(where, 0)
            },
            groups=LazyMapping(
                {
                    name: (group, earlier)
                    for name, group in self.groups.items()
                    if group.grew_after(earlier := older.groups.get(name))
                },
                _group_since,
            ),
            transfers=self.transfers.since(older.transfers),
            activities=LazyMapping(
                {
                    what: (d, older.activities.get(what, Distribution()))
                    for what, d in self.activities.items()
                },
                Distribution.since,
            ),
            activity_totals=activities_since(self.activity_totals, older.activity_totals),
            idle_seconds=idle,
            worker_state_seconds=seconds_since(
                self.worker_state_seconds, older.worker_state_seconds
            ),
            workers_joined=max(0, self.workers_joined - older.workers_joined),
            workers_left={
                reason: max(0, left - older.workers_left.get(reason, 0))
                for reason, left in self.workers_left.items()
            },
            failures=failures_since(self.failures, older.failures),
            costs=costs_since(self.costs, older.costs),
            ended=tuple(a for a in self.ended if a.start + a.seconds > older.at),
            loop_turns=LazyMapping(
                {
                    part: (turns, older.loop_turns.get(part, Distribution()))
                    for part, turns in self.loop_turns.items()
                },
                Distribution.since,
            ),
        )

    @property
    def seconds(self) -> tuple[dict[str, float], dict[str, float]]:
        """``({prefix: compute seconds}, {reason: idle seconds})``: in all the thread seconds."""
        compute = {name: stats.compute_seconds for name, stats in self.prefixes.items()}
        return compute, dict(self.idle_seconds)

    def to_dict(
        self, encode: Callable[[Distribution], Any] = codec.with_quantiles
    ) -> dict[str, Any]:
        """Return the snapshot as lists, dicts, numbers and strings: JSON-able, but for nan.

        Parameters
        ----------
        encode
            Gives what stands for a distribution. By default that is `Distribution.to_dict` with
            ``mean``, ``std``, ``p5``, ``p25``, ``p50``, ``p75``, ``p95`` and ``p99`` added;
            `Distribution.to_bytes` makes it a tenth of that.
        """
        return {"version": codec.VERSION, **codec.to_plain(self, encode)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Snapshot:
        """Make the snapshot that `to_dict` was called on; unknown fields are passed over.

        Raises
        ------
        ValueError
            If `data` is not a snapshot.
        """
        try:
            found = codec.known(cls, data)
            found.update(codec.parts(data))
            found["workers"] = tuple(_worker(row) for row in data.get("workers", ()))
            return cls(**found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"This is not a taskmeter snapshot: {error!r}.") from error

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row a prefix.

        ``mean``, ``std``, ``min``, ``p5`` ... ``p99`` and ``max`` are of the durations of ok
        attempts, in seconds.

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
        every = tuple(self.prefixes.values())
        durations = [p.durations[COMPUTE] for p in every]
        names = tuple(f"p{q * 100:g}" for q in QUANTILES)
        columns = {
            "compute_seconds": [p.compute_seconds for p in every],
            "seceded_seconds": [p.seceded_seconds for p in every],
            "cpu_seconds": [p.cpu_seconds for p in every],
            "executing": [p.executing for p in every],
            **{o: [p.attempts[o].count for p in every] for o in OUTCOMES},
            **{f"{o}_seconds": [p.attempts[o].seconds for p in every] for o in OUTCOMES},
            "mean": [d.mean for d in durations],
            "std": [d.std for d in durations],
            "min": [d.minimum for d in durations],
            **dict(zip(names, quantiles(durations, QUANTILES).T, strict=True)),
            "max": [d.maximum for d in durations],
            "output_bytes_mean": [p.output_bytes.mean for p in every],
        }
        frame = pd.DataFrame(columns, index=list(self.prefixes))
        frame.index.name = "prefix"
        return frame


def _worker(row: Mapping[str, Any]) -> WorkerStatus:
    worker = codec.known(WorkerStatus, row)
    worker["attempts"] = codec.attempts(row.get("attempts", {}))
    if "durations" in worker:
        worker["durations"] = codec.distribution(worker["durations"])
    if worker.get("speed") is not None:
        worker["speed"] = WorkerSpeed(**codec.known(WorkerSpeed, worker["speed"]))
    return WorkerStatus(**worker)


def _prefix_since(newer: PrefixStats, older: PrefixStats, compute_seconds: float) -> PrefixStats:
    return newer.since(older, compute_seconds=compute_seconds)


def _group_since(newer: GroupStats, older: GroupStats | None) -> GroupStats:
    return newer if older is None else newer.since(older)
