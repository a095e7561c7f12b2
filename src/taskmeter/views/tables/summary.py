"""What a snapshot says, in words: a few sentences, those that matter most first."""

from __future__ import annotations

import math
from collections.abc import Mapping

from taskmeter.attempts.attempt import OTHER, STALLED_SECONDS
from taskmeter.catalogue.words import RECOMPUTED, WASTE
from taskmeter.distributions.quantiles import quantiles
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import COMPUTE
from taskmeter.text import duration, percentage
from taskmeter.views.strip import many, named
from taskmeter.views.tables.capacity import idle_parts, wasted_seconds
from taskmeter.views.tables.costs import price_line

#: Reasons to be idle that are named; the others are added up.
_REASONS = 3

#: A part smaller than this is not worth words.
_LEAST = 0.005

#: A prefix has stragglers if its p99 is so many times its median, in so many attempts or more.
_STRAGGLING, _ENOUGH = 10.0, 100

#: Below this part of its compute spent on a CPU, a prefix is said to wait.
_WAITING = 0.25


def sentences(snapshot: Snapshot) -> tuple[str, ...]:
    """Return what a snapshot says, in sentences.

    Percentages of capacity are of its thread seconds, those of waste of its compute seconds.
    """
    parts = [_capacity, price_line]
    if snapshot.prefixes:
        parts += [_costliest, _slowest, _stragglers, _waste, _recomputed]
        parts += [_cpu, _running]
    parts += [_unmetered, _trouble]
    return tuple(sentence for part in parts if (sentence := part(snapshot)))


def _capacity(snapshot: Snapshot) -> str:
    elapsed = duration(snapshot.elapsed_seconds)
    if not snapshot.thread_seconds:
        return f"There was no worker in these {elapsed}."
    of = f"{duration(snapshot.thread_seconds)} of thread time"
    if not snapshot.prefixes:
        return f"No task ran in these {elapsed}: nothing of {of} was compute."
    begin = f"{percentage(snapshot.utilisation)} of {of} was compute"
    return f"{begin}{_idle(snapshot)}."


def _idle(snapshot: Snapshot) -> str:
    parts = idle_parts(snapshot.idle_seconds, snapshot.thread_seconds, _LEAST)
    if not snapshot.idle_seconds:
        return ""
    if not parts:
        return "; its threads were hardly ever idle"
    kinds = [f"{percentage(share)} idle {words}" for words, share in parts[:_REASONS]]
    rest = math.fsum(share for _, share in parts[_REASONS:])
    if rest:
        kinds.append(f"{percentage(rest)} idle for other reasons")
    return "; " + ", ".join(kinds)


def _costliest(snapshot: Snapshot) -> str:
    whole = snapshot.compute_seconds
    if not whole:
        return ""
    name = _largest({n: p.compute_seconds for n, p in snapshot.prefixes.items()})
    stats = snapshot.prefixes[name]
    attempts = stats.ended + stats.executing
    return (
        f"{named(name)} cost most: {duration(stats.compute_seconds)}, "
        f"{percentage(stats.compute_seconds / whole)} of all compute, in "
        f"{many(attempts, 'attempt')}."
    )


def _slowest(snapshot: Snapshot) -> str:
    durations = {n: p.durations[COMPUTE] for n, p in snapshot.prefixes.items()}
    known = {n: d for n, d in durations.items() if d.count and n != OTHER}
    if not known:
        return ""
    spread = quantiles(known.values(), [0.5, 0.95]).tolist()
    rows = dict(zip(known, spread, strict=True))
    name = _largest({n: p50 for n, (p50, _) in rows.items()})
    p50, p95 = rows[name]
    twentieth = f", one in twenty {duration(p95)} or more" if known[name].count >= 20 else ""
    half = f"half of its tasks took {duration(p50)} or more"
    return f"The slowest prefix is {named(name)}: {half}{twentieth}."


def _stragglers(snapshot: Snapshot) -> str:
    durations = {n: p.durations[COMPUTE] for n, p in snapshot.prefixes.items()}
    known = {n: d for n, d in durations.items() if d.count >= _ENOUGH and n != OTHER}
    spread = dict(zip(known, quantiles(known.values(), [0.5, 0.99]).tolist(), strict=True))
    least = 0.02 * snapshot.compute_seconds
    ratios = {
        n: p99 / p50
        for n, (p50, p99) in spread.items()
        if p50 > 0 and p99 / p50 >= _STRAGGLING and known[n].sum >= least
    }
    if not ratios:
        return ""
    name = _largest(ratios)
    return (
        f"{named(name)} has stragglers: one task in a hundred took {duration(spread[name][1])} or "
        f"more, {ratios[name]:,.0f} times the median."
    )


def _waste(snapshot: Snapshot) -> str:
    every = snapshot.prefixes
    ended = sum(p.ended for p in every.values())
    bad = sum(p.ended - p.attempts["ok"].count for p in every.values())
    by_outcome = {kind: s for kind, s in wasted_seconds(snapshot).items() if kind != RECOMPUTED}
    wasted = math.fsum(by_outcome.values())
    if not bad:
        return "Nothing was wasted: every attempt that ended, ended well." if ended else ""
    if not wasted:
        return f"{many(bad, 'attempt')} did not end well, but cost no time."
    parts = []
    for outcome, seconds in by_outcome.items():
        worst = _largest({n: p.attempts[outcome].seconds for n, p in every.items()})
        share = every[worst].attempts[outcome].seconds / seconds
        whose = f"of {named(worst)}" if share > 0.995 else f"above all of {named(worst)}"
        parts.append(f"{duration(seconds)} on {WASTE[outcome]} ({whose})")
    # in a window, attempts may end that did most of their work before it
    whole = max(snapshot.compute_seconds, wasted)
    return f"{percentage(wasted / whole)} of compute was wasted: {', '.join(parts)}."


def _recomputed(snapshot: Snapshot) -> str:
    each = {n: p.recomputed_seconds for n, p in snapshot.prefixes.items()}
    seconds = math.fsum(each.values())
    if not seconds:
        return ""
    whole = max(snapshot.compute_seconds, seconds)
    return (
        f"{percentage(seconds / whole)} of compute ({duration(seconds)}) made results again that "
        f"had been lost, above all those of {named(_largest(each))}."
    )


def _cpu(snapshot: Snapshot) -> str:
    # only code in the pool's threads has its CPU time taken, seceded or not
    held = snapshot.compute_seconds + snapshot.seceded_seconds
    if not held or not snapshot.cpu_seconds:
        return ""
    share = min(1.0, snapshot.cpu_seconds / held)
    said = f"Tasks were on a CPU for {percentage(share)} of their time"
    waits = {
        n: p.compute_seconds
        for n, p in snapshot.prefixes.items()
        if p.compute_seconds >= 0.1 * snapshot.compute_seconds > 0
        and p.cpu_seconds < _WAITING * (p.compute_seconds + p.seceded_seconds)
    }
    if not waits:
        return f"{said}."
    name = _largest(waits)
    stats = snapshot.prefixes[name]
    share = stats.cpu_seconds / (stats.compute_seconds + stats.seceded_seconds)
    return f"{said}; {named(name)} mostly waited, with {percentage(share)}."


def _running(snapshot: Snapshot) -> str:
    running = snapshot.running
    if not running:
        return ""
    oldest = min(running, key=lambda attempt: attempt.start)
    age = duration(max(0.0, snapshot.at - oldest.start))
    verb = "is" if len(running) == 1 else "are"
    said = f"{many(len(running), 'attempt')} {verb} still running"
    said += f", of {named(oldest.prefix)}, for {age}" if len(running) == 1 else (
        f", the oldest, of {named(oldest.prefix)}, for {age}"
    )  # fmt: skip
    still = snapshot.stalled(STALLED_SECONDS)
    if still:
        number = "it has" if len(running) == 1 else f"{len(still):,} of them "
        number += "" if len(running) == 1 else ("has" if len(still) == 1 else "have")
        said += f"; {number} not used a CPU for {duration(STALLED_SECONDS)} or longer"
    return f"{said}."


def _unmetered(snapshot: Snapshot) -> str:
    missing = sum(not worker.metered for worker in snapshot.workers)
    if not missing:
        return ""
    return (
        f"{missing:,} of {many(len(snapshot.workers), 'worker')} "
        f"{'has' if missing == 1 else 'have'} no meter: what ran there is estimated."
    )


def _trouble(snapshot: Snapshot) -> str:
    parts = []
    if snapshot.invalid_samples:
        parts.append(f"{many(snapshot.invalid_samples, 'sample')} left out as invalid")
    errors = sum(snapshot.errors.values())
    if errors:
        parts.append(f"{many(errors, 'error')} of its own contained")
    return f"taskmeter has {' and '.join(parts)}: see below." if parts else ""


# Words


def _largest(figures: Mapping[str, float]) -> str:
    # the name decides between equals
    return min(figures, key=lambda name: (-figures[name], name))
