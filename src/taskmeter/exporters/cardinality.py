"""Folding: the cap on the number of prefixes that have series of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

from taskmeter.attempts.attempt import OTHER, OUTCOMES, AttemptTotals
from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.merge import merge_all
from taskmeter.snapshots.stats import ActivityTotals, PrefixStats

_Part = TypeVar("_Part")


def printable(text: str) -> str:
    r"""Return text that can be encoded as UTF-8: lone surrogates become ``\udc80`` and the like."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def fold(prefixes: Mapping[str, PrefixStats], cap: int) -> tuple[dict[str, PrefixStats], int]:
    """Let the first prefixes keep their name, and add the rest up as ``__other__``.

    Sums over all prefixes stay exact, and a counter never falls: sums are correctly rounded, so
    they grow with what they add up. A name once kept stays kept, because a snapshot gives
    prefixes in the order they were first seen.

    Parameters
    ----------
    prefixes
        Of a snapshot; a ledger that met its own cap may have an ``__other__`` already.
    cap
        Names to keep, ``__other__`` not included.

    Returns
    -------
    prefixes
        At most ``cap + 1``, with names that can be encoded as UTF-8.
    folded
        How many prefixes went into ``__other__``.
    """
    #: {name as shown: stats of the prefixes that share it}
    shares: dict[str, list[PrefixStats]] = {}
    rest: list[PrefixStats] = []
    folded = 0
    for name, stats in prefixes.items():
        shown = printable(name)
        if shown == OTHER:
            rest.append(stats)
        elif shown in shares:
            shares[shown].append(stats)
        elif len(shares) < cap:
            shares[shown] = [stats]
        else:
            rest.append(stats)
            folded += 1
    if rest:
        shares[OTHER] = rest
    return {name: _add_up(share) for name, share in shares.items()}, folded


def _add_up(share: Sequence[PrefixStats]) -> PrefixStats:
    if len(share) == 1:
        return share[0]
    starts = [stats.oldest_start for stats in share if stats.oldest_start is not None]
    slow = [stats.slowest for stats in share if stats.slowest is not None]
    return PrefixStats(
        compute_seconds=math.fsum(stats.compute_seconds for stats in share),
        seceded_seconds=math.fsum(stats.seceded_seconds for stats in share),
        cpu_seconds=math.fsum(stats.cpu_seconds for stats in share),
        executing=sum(stats.executing for stats in share),
        stalled=sum(stats.stalled for stats in share),
        attempts={
            outcome: AttemptTotals(
                count=sum(stats.attempts[outcome].count for stats in share),
                seconds=math.fsum(stats.attempts[outcome].seconds for stats in share),
            )
            for outcome in OUTCOMES
        },
        oldest_start=min(starts, default=None),
        durations=_merged(stats.durations for stats in share),
        failed_durations=merge_all(stats.failed_durations for stats in share),
        waits=_merged(stats.waits for stats in share),
        output_bytes=merge_all(stats.output_bytes for stats in share),
        recent=merge_all(stats.recent for stats in share),
        slowest=max(slow, key=attrgetter("seconds"), default=None),
        activities=_added_activities(stats.activities for stats in share),
        recomputed_seconds=math.fsum(stats.recomputed_seconds for stats in share),
        state_seconds={
            state: math.fsum(seconds)
            for state, seconds in _gathered(stats.state_seconds for stats in share).items()
        },
        states={
            state: sum(tasks) for state, tasks in _gathered(stats.states for stats in share).items()
        },
        late=sum(stats.late for stats in share),
    )


def _merged(shares: Iterable[Mapping[str, Distribution]]) -> dict[str, Distribution]:
    return {what: merge_all(parts) for what, parts in _gathered(shares).items()}


def _added_activities(shares: Iterable[Mapping[str, ActivityTotals]]) -> dict[str, ActivityTotals]:
    return {
        activity: ActivityTotals(
            seconds=math.fsum(totals.seconds for totals in parts),
            bytes=math.fsum(totals.bytes for totals in parts),
            count=math.fsum(totals.count for totals in parts),
        )
        for activity, parts in _gathered(shares).items()
    }


def _gathered(shares: Iterable[Mapping[str, _Part]]) -> dict[str, list[_Part]]:
    """Return ``{action, stage, state or activity: what each share has of it}``."""
    found: dict[str, list[_Part]] = {}
    for share in shares:
        for what, part in share.items():
            found.setdefault(what, []).append(part)
    return found
