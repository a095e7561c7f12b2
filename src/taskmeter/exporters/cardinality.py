"""Folding: the cap on the number of prefixes that have series of their own."""

from __future__ import annotations

from collections.abc import Mapping

from taskmeter.attempts.attempt import OTHER
from taskmeter.snapshots.stats import PrefixStats
from taskmeter.text import utf8_safe


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
        shown = utf8_safe(name)
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
    merged = {
        name: share[0].merge(*share[1:]) if len(share) > 1 else share[0]
        for name, share in shares.items()
    }
    return merged, folded
