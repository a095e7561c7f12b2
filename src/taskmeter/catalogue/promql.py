"""PromQL with families in angle brackets, so that a query can only name families that exist.

``rate(<compute_seconds_total>[1m])`` is a query without namespace; ``<worker:executing>`` is the
family that a worker serves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from taskmeter.catalogue import FAMILIES, SCOPES, Family, Scope

#: What Prometheus allows a metric's name to begin with; Dask allows an empty namespace, too.
NAMESPACE: Final = re.compile(r"(?:[a-zA-Z_:][a-zA-Z0-9_:]*)?")

_NAMED: Final = re.compile(r"<(?:(worker):)?([a-z_]+)>")


def _samples(family: Family) -> tuple[str, ...]:
    """Return the names of a family's samples; a native histogram's is that of the family."""
    bare = ("",) if family.kind == "histogram" else ()
    return tuple(family.name + suffix for suffix in (*bare, *family.suffixes))


#: {(scope, name of a sample without namespace): family}
SAMPLES: Final[Mapping[tuple[Scope, str], Family]] = {
    (scope, name): family
    for scope in SCOPES
    for family in FAMILIES
    if scope in family.scopes
    for name in _samples(family)
}


def named(query: str) -> list[Family]:
    """Return the families that a query names, in order.

    Raises
    ------
    ValueError
        If there is no such family.
    """
    return [_family(match) for match in _NAMED.finditer(query)]


def expand(query: str, namespace: str = "dask") -> str:
    """Return the query with the full names of its families.

    Raises
    ------
    ValueError
        If it names a family that is not in the catalogue.
    """

    def full(match: re.Match[str]) -> str:
        family = _family(match)
        suffix = match[2].removeprefix(family.name)
        return family.full_name(_scope(match), namespace) + suffix

    return _NAMED.sub(full, query)


def _scope(match: re.Match[str]) -> Scope:
    return "worker" if match[1] else "scheduler"


def _family(match: re.Match[str]) -> Family:
    try:
        return SAMPLES[_scope(match), match[2]]
    except KeyError:
        raise ValueError(f"No family has samples named {match[0]}.") from None


# Histograms. Prometheus has native ones, classic buckets, or both; the left side of an ``or`` wins.


def quantile(share: str, histogram: str, matchers: str, window: str, grouping: str) -> str:
    """Return the query of a quantile, from native histograms or else from classic buckets.

    Parameters
    ----------
    share
        Such as ``0.95`` or a variable.
    histogram
        Name of the family.
    matchers
        Such as ``{action="compute"}``.
    window
        Range of the rate, such as ``5m``; if empty, the counters since the start are used.
    grouping
        Such as ``by (le)`` or ``without (action)``; it must keep ``le``.
    """

    def of(name: str) -> str:
        series = _rate(f"<{name}>{matchers}", window)
        return f"histogram_quantile({share}, sum {grouping} ({series}))"

    return f"{of(histogram)}\nor\n{of(histogram + '_bucket')}"


def total(what: str, histogram: str, matchers: str, window: str, grouping: str) -> str:
    """Return the query of the rate at which a histogram's ``sum`` or ``count`` grows.

    Parameters
    ----------
    what
        One of the two.
    histogram, matchers, window, grouping
        As in `quantile`.
    """
    native = f"histogram_{what}(sum {grouping} ({_rate(f'<{histogram}>{matchers}', window)}))"
    classic = f"sum {grouping} ({_rate(f'<{histogram}_{what}>{matchers}', window)})"
    return f"({native} or {classic})"


def mean(histogram: str, matchers: str, window: str, grouping: str) -> str:
    """Return the query of the mean; parameters as in `quantile`."""
    parts = (total(what, histogram, matchers, window, grouping) for what in ("sum", "count"))
    return "\n/\n".join(parts)


def deviation(histogram: str, matchers: str, window: str, grouping: str) -> str:
    """Return the query of the standard deviation; parameters as in `quantile`."""
    squares = f"sum {grouping} ({_rate(f'<{histogram}_squares_total>{matchers}', window)})"
    count = total("count", histogram, matchers, window, grouping)
    middle = mean(histogram, matchers, window, grouping)
    # where all values are the same, rounding can make the difference negative
    return f"sqrt(clamp_min(\n{squares}\n/\n{count}\n- (\n{middle}\n) ^ 2, 0))"


def _rate(series: str, window: str) -> str:
    return f"rate({series}[{window}])" if window else series
