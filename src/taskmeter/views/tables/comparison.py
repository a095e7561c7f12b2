"""Two runs beside each other: what changed, in sentences and rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf, isnan, nan

from taskmeter.history.comparison import Comparison, PrefixChange
from taskmeter.history.two_samples import Ratio
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration, percentage, short_name
from taskmeter.views.tables.capacity import shares
from taskmeter.views.tables.column import Column, counts, seconds

#: Prefixes that a sentence names.
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityChange:
    """A part of the capacity, before and after.

    Parameters
    ----------
    label
        What people call it.
    before, after
        Thread seconds.
    """

    label: str
    before: float
    after: float

    @property
    def seconds(self) -> float:
        """How many more thread seconds went there."""
        return self.after - self.before


def capacity_changes(before: Snapshot, after: Snapshot) -> list[CapacityChange]:
    """Return where the capacity went in both runs, what changed most first; the whole is last."""
    found = [
        CapacityChange(label=was.label, before=was.seconds, after=now.seconds)
        for was, now in zip(shares(before), shares(after), strict=True)
        if max(was.seconds, now.seconds) > 0
    ]
    found.sort(key=lambda change: -abs(change.seconds))
    whole = CapacityChange(
        label="capacity", before=before.thread_seconds, after=after.thread_seconds
    )
    return [*found, whole]


def signed(number: float) -> str:
    """Return a difference of durations, with its sign."""
    if not number:
        return duration(number)
    return f"{'+' if number > 0 else '-'}{duration(abs(number))}"


def times(number: float) -> str:
    """Return a factor with three digits."""
    return f"{number:.2f}" if number < 9.995 else f"{number:,.0f}"


def interval(ratio: Ratio) -> str:
    """Return the interval of a ratio in words; empty where there is no ratio."""
    if isnan(ratio.value):
        return ""
    if isinf(ratio.high):
        return f"over {times(ratio.low)}" if ratio.low >= 0.005 else "unknown"
    return f"{times(ratio.low)} to {times(ratio.high)}"


def sentences(found: Comparison, fail_above: float | None = None) -> list[str]:
    """Return what is certain, and what the figures rest on.

    Parameters
    ----------
    found
        The comparison.
    fail_above
        The part by which no prefix may take longer; None if any may.
    """
    before, after = found.before, found.after
    compute = before.compute_seconds, after.compute_seconds
    change = signed(compute[1] - compute[0])
    clock = f"{duration(before.elapsed_seconds)} and {duration(after.elapsed_seconds)}"
    used = f"{duration(compute[0])} before, {duration(compute[1])} after ({change})"
    said = [f"Compute: {used}; by the clock {clock}."]
    parts = [
        _named(found, verdict, words)
        for verdict, words in (
            ("slower", "slower"),
            ("faster", "faster"),
            ("reshaped", "of another shape"),
            ("moved", "of another distribution"),
            ("new", "new"),
            ("gone", "gone"),
        )
    ]
    said += [part for part in parts if part]
    if not any(parts):
        said.append("Nothing is certain to have changed.")
    if fail_above is not None:
        said.append(judgement(found, fail_above))
    said.append(
        f"All intervals together hold with {percentage(1 - found.chance)} probability; the means "
        f"of two equal runs were taken to differ by {percentage(found.noise)}."
    )
    if not found.workers_known:
        said.append(
            "These files do not tell how much tasks of one worker resemble each other, so tasks "
            "count as independent: where some workers are slow, the intervals are too short."
        )
    elif found.neighbours_unknown:
        said.append(
            f"Of {found.neighbours_unknown:,} prefixes, too few attempts are known to tell whether "
            "they come in runs of alike ones: where they do, the intervals are too short."
        )
    return said


def judgement(found: Comparison, fail_above: float) -> str:
    """Return whether a prefix is certain to take longer by more than a part, as a sentence."""
    slow = found.slower_than(1 + fail_above)
    limit = f"more than {percentage(fail_above)} longer"
    if not slow:
        return f"OK: no prefix is certain to take {limit}."
    return f"FAILED: certain to take {limit}: {_listed(slow)}."


def _named(found: Comparison, verdict: str, words: str) -> str:
    chosen = [change for change in found.changes if change.verdict == verdict]
    return f"{len(chosen):,} {words}: {_listed(chosen)}." if chosen else ""


def _listed(changes: Sequence[PrefixChange]) -> str:
    names = [_told(change) for change in changes[:_NAMED]]
    more = len(changes) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _told(change: PrefixChange) -> str:
    name = short_name(change.prefix)
    if isnan(change.mean.value) or change.verdict in ("reshaped", "moved"):
        return name
    # whatever is certain: the mean, or else the typical task
    ratio = change.mean if change.mean.certain else change.typical
    return f"{name} ({interval(ratio)} times{'' if change.mean.certain else ', typically'})"


CAPACITY_COLUMNS: tuple[Column[CapacityChange], ...] = (
    Column(title="where", hint="The part.", value=lambda c: c.label, rank=0, always=True),
    seconds("before", "Thread seconds.", lambda c: c.before, 1, always=True),
    seconds("after", "Thread seconds.", lambda c: c.after, 1, always=True),
    Column(
        title="change",
        hint="How many more.",
        value=lambda c: c.seconds,
        write=signed,
        rank=0,
        always=True,
    ),
)

#: The columns of prefixes, from left to right; those with a rank are on a terminal too.
CHANGE_COLUMNS: tuple[Column[PrefixChange], ...] = (
    Column(
        title="task prefix",
        hint="What Dask calls this kind of task.",
        value=lambda c: c.prefix or "''",
        rank=0,
        least=24,
        always=True,
    ),
    Column(
        title="verdict",
        hint="What is certain: slower, faster, else of another shape (reshaped) or distribution "
        "(moved); new, gone.",
        value=lambda c: c.verdict,
        rank=0,
        always=True,
    ),
    Column(
        title="change",
        hint="How many more compute seconds, by more tasks or by longer ones.",
        value=lambda c: c.seconds,
        write=signed,
        rank=1,
        always=True,
    ),
    seconds("before", "Compute seconds before.", lambda c: c.seconds_before, 7),
    seconds("after", "Compute seconds after.", lambda c: c.seconds_after, 7),
    counts("tasks before", "Tasks that ended well before.", lambda c: c.tasks_before, 6),
    counts("tasks after", "Tasks that ended well after.", lambda c: c.tasks_after, 5),
    seconds("mean before", "Their mean duration before.", lambda c: c.mean_before, 4),
    seconds("mean after", "Their mean duration after.", lambda c: c.mean_after, 4),
    Column(
        title="times",
        hint="How many times longer the mean is.",
        value=lambda c: c.mean.value,
        write=times,
        rank=2,
    ),
    Column(
        title="interval",
        hint="What that can be; all intervals of the table hold at once.",
        value=lambda c: interval(c.mean),
        rank=2,
        right=True,
    ),
    Column(
        title="typical",
        hint="How many times longer the typical task is: the ratio of the geometric means.",
        value=lambda c: c.typical.value,
        write=times,
        rank=3,
    ),
    Column(
        title="its interval",
        hint="That of the typical task's ratio.",
        value=lambda c: interval(c.typical),
        rank=3,
        right=True,
    ),
    Column(
        title="moved",
        hint="The distance of the distributions, as a part of the tasks, where it is certain.",
        value=lambda c: c.apart.distance if c.apart.moved else nan,
        write=percentage,
        rank=8,
    ),
    Column(
        title="reshaped",
        hint="The same after both runs were brought to one scale.",
        value=lambda c: c.apart.shape_distance if c.apart.reshaped else nan,
        write=percentage,
        rank=8,
    ),
)
