"""What the reader has chosen, and a view of that alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, InFlight
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.merge import merge_all
from taskmeter.history.moment import Moment
from taskmeter.snapshots.ended import EndedAttempt
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE, GroupStats, PrefixStats
from taskmeter.views.figures.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What the reader has chosen; what is None is not restricted.

    Parameters
    ----------
    prefix
        A prefix, exactly as Dask has it.
    worker
        The address of a worker.
    span
        A span, as `GroupStats.span` has it.
    window
        ``(start, stop)`` in Unix time.
    """

    prefix: str | None = None
    worker: str | None = None
    span: tuple[str, ...] | None = None
    window: tuple[float, float] | None = None

    @property
    def sampled(self) -> bool:
        """Whether figures of it come from the latest ended attempts, and not from all."""
        return self.worker is not None or self.window is not None


def chosen(view: View, selection: Selection) -> View:
    """Return the part of a view that is chosen.

    Figures of a prefix or a span are those of the snapshot. Nobody keeps distributions by worker or
    by time: those of a worker or a window are of the latest attempts that ended, `Snapshot.ended`,
    and of those that run.
    """
    if selection == Selection():
        return view
    snapshot = view.snapshot
    prefixes = _prefixes(snapshot, selection)
    names = None
    if selection.prefix is not None or selection.span is not None:
        names = frozenset(prefixes)
    part = replace(
        snapshot,
        prefixes=prefixes,
        running=tuple(a for a in snapshot.running if _runs_in(a, selection, names)),
        late=tuple(
            late
            for late in snapshot.late
            if (names is None or late.prefix in names) and selection.worker in {None, late.worker}
        ),
        groups={
            name: group
            for name, group in snapshot.groups.items()
            if (names is None or group.prefix in names) and selection.span in {None, group.span}
        },
        failures=tuple(f for f in snapshot.failures if names is None or f.prefix in names),
        ended=_ended(snapshot.ended, selection, names),
    )
    return replace(view, snapshot=part, moments=_moments(view.moments, selection.window, names))


def spans(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """Return the spans there are, by name."""
    return sorted({group.span for group in snapshot.groups.values() if group.span})


def _prefixes(snapshot: Snapshot, selection: Selection) -> Mapping[str, PrefixStats]:
    """Return the chosen prefixes with the figures of what is chosen of them."""
    prefixes: Mapping[str, PrefixStats] = snapshot.prefixes
    if selection.span is not None:
        prefixes = _of_span(snapshot, selection.span)
    if selection.prefix is not None:
        prefixes = {selection.prefix: prefixes.get(selection.prefix, PrefixStats())}
    if not selection.sampled:
        return prefixes
    ended: dict[str, list[EndedAttempt]] = {name: [] for name in prefixes}
    for attempt in _ended(snapshot.ended, selection, frozenset(prefixes)):
        ended[attempt.prefix].append(attempt)
    running: dict[str, list[InFlight]] = {name: [] for name in prefixes}
    for flying in snapshot.running:
        if _runs_in(flying, selection, frozenset(prefixes)):
            running[flying.prefix].append(flying)
    return {
        name: of_attempts(ended[name], running[name])
        for name in prefixes
        if ended[name] or running[name] or name == selection.prefix
    }


def _of_span(snapshot: Snapshot, span: tuple[str, ...]) -> dict[str, PrefixStats]:
    groups: dict[str, list[GroupStats]] = {}
    for group in snapshot.groups.values():
        if group.span == span:
            groups.setdefault(group.prefix, []).append(group)
    return {prefix: _of_groups(several) for prefix, several in groups.items()}


def _of_groups(groups: Sequence[GroupStats]) -> PrefixStats:
    ok = merge_all(group.durations[COMPUTE] for group in groups)
    failed = merge_all(group.failed_durations for group in groups)
    attempts = {
        outcome: AttemptTotals(count=d.count, seconds=d.sum)
        for outcome, d in (("ok", ok), ("failed", failed))
    }
    return PrefixStats(
        compute_seconds=ok.sum + failed.sum,
        attempts={outcome: attempts.get(outcome, AttemptTotals()) for outcome in OUTCOMES},
        durations={COMPUTE: ok},
        failed_durations=failed,
        output_bytes=merge_all(group.output_bytes for group in groups),
    )


def of_attempts(ended: Sequence[EndedAttempt], running: Sequence[InFlight] = ()) -> PrefixStats:
    """Return the figures of some attempts of a prefix, each as often as it stands for."""
    seconds = np.array([attempt.seconds for attempt in ended])
    times = np.rint([attempt.weight for attempt in ended]).astype(np.int64)
    outcomes = np.array([attempt.outcome for attempt in ended])
    every = {
        outcome: Distribution.of(np.repeat(seconds, times)[np.repeat(outcomes, times) == outcome])
        for outcome in OUTCOMES
    }
    return PrefixStats(
        compute_seconds=sum(d.sum for d in every.values())
        + sum(attempt.compute_seconds for attempt in running),
        executing=len(running),
        oldest_start=min((attempt.start for attempt in running), default=None),
        attempts={o: AttemptTotals(count=d.count, seconds=d.sum) for o, d in every.items()},
        durations={COMPUTE: every["ok"]},
        failed_durations=every["failed"],
    )


def _runs_in(attempt: InFlight, selection: Selection, names: frozenset[str] | None) -> bool:
    return (
        (names is None or attempt.prefix in names)
        and selection.worker in {None, attempt.worker}
        and (selection.window is None or attempt.start <= selection.window[1])
    )


def _ended(
    ended: Iterable[EndedAttempt], selection: Selection, names: frozenset[str] | None
) -> tuple[EndedAttempt, ...]:
    start, stop = selection.window or (-np.inf, np.inf)
    return tuple(
        attempt
        for attempt in ended
        if (names is None or attempt.prefix in names)
        and selection.worker in {None, attempt.worker}
        and attempt.start <= stop
        and attempt.start + attempt.seconds >= start
    )


def _moments(
    moments: tuple[Moment, ...],
    window: tuple[float, float] | None,
    names: frozenset[str] | None,
) -> tuple[Moment, ...]:
    if window is not None:
        moments = tuple(m for m in moments if m.stop > window[0] and m.start < window[1])
    if names is None:
        return moments
    return tuple(
        replace(
            moment,
            compute_seconds={n: s for n, s in moment.compute_seconds.items() if n in names},
            rest_seconds=0.0,
        )
        for moment in moments
    )
