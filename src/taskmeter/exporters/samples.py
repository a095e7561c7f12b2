"""Readings: the rows of each family at one instant, checked while an encoder writes them down."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from taskmeter.catalogue import FAMILIES, PREFIX, Family, Figures, Grid, Observed, Row, Scope
from taskmeter.config import Settings
from taskmeter.exporters.classic import bounds

#: Is told the name of a family that could not be read, and why.
Report = Callable[[str, Exception], None]

_Written = TypeVar("_Written")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The rows of one family at one instant, which can be read once.

    Parameters
    ----------
    family
        Which family.
    name
        Its full name, without the suffix of its kind.
    help
        Its help text.
    rows
        Its samples. They are read from the snapshot only now: many thousands at a time would make
        Python look through all of the process's objects for garbage, for which the event loop has
        to wait.
    bounds
        Of the classic buckets of each grid.
    start, first_seen
        When its counters were 0 (Unix time): the beginning, and ``{prefix: when it was first
        seen}`` for series of prefixes.
    at
        The instant that its samples are stamped with (Unix time); None for that of the scrape.
    """

    family: Family
    name: str
    help: str
    rows: Iterator[Row]
    bounds: Mapping[Grid, tuple[float, ...]] = field(default_factory=dict)
    start: float = 0.0
    first_seen: Mapping[str, float | None] = field(default_factory=dict)
    at: float | None = None

    @property
    def numbers(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """The rows of a family that is no histogram."""
        return ((values, x) for values, x in self.rows if not isinstance(x, Observed))

    @property
    def histograms(self) -> Iterator[tuple[tuple[str, ...], Observed]]:
        """The rows of a family that is a histogram."""
        return ((values, x) for values, x in self.rows if isinstance(x, Observed))

    def created(self, values: tuple[str, ...]) -> float:
        """Return when a series began (Unix time, in whole milliseconds)."""
        labels = self.family.labels
        seen = self.first_seen.get(values[labels.index(PREFIX)]) if PREFIX in labels else None
        return round(self.start if seen is None else seen, 3)


def read(
    figures: Figures,
    write: Callable[[Reading], Iterable[_Written]],
    *,
    scope: Scope,
    settings: Settings,
    names: Collection[str] = (),
    families: Iterable[Family] = FAMILIES,
    report: Report,
) -> Iterator[_Written]:
    """Return what `write` makes of the reading of each family.

    A family that raises while it is read or written costs that family this once and is one more
    error in `figures`, which the family of errors, the last one, already shows.

    Parameters
    ----------
    figures
        What there is to read.
    write
        Reads one family and gives pieces of it.
    scope, settings
        What the names are made of, and the bounds of buckets.
    names
        Only families with one of these names, or with such samples; all of them if empty.
    families
        Those to read.
    report
        Is told of each family that raised.
    """
    first_seen = {name: stats.first_seen for name, stats in figures.snapshot.prefixes.items()}
    for family in families:
        if scope not in family.scopes:
            continue
        name = family.full_name(scope, settings.namespace)
        if names and not any(name + suffix in names for suffix in ("", *family.suffixes)):
            continue
        reading = Reading(
            family=family,
            name=name,
            help=family.help_in(scope),
            rows=_checked(family, figures),
            bounds=bounds(scope, settings),
            start=figures.snapshot.start,
            first_seen=first_seen,
            at=figures.snapshot.reported_at if family.reported else None,
        )
        try:
            pieces = list(write(reading))
        except Exception as error:  # noqa: BLE001 (one family must not cost the others)
            where = f"metric {family.name}"
            report(where, error)
            figures = replace(figures, errors=added(figures.errors, {where: 1}))
            continue
        yield from pieces


def _checked(family: Family, figures: Figures) -> Iterator[Row]:
    """Refuse what would make the whole exposition unreadable."""
    for row in family.read(figures):
        values, figure = row
        if isinstance(figure, Observed):
            if family.kind != "histogram":
                raise TypeError(f"A {family.kind} cannot be a distribution ({values!r}).")
        elif family.kind == "histogram":
            raise TypeError(f"A histogram cannot be {figure!r} ({values!r}).")
        elif family.kind == "counter" and not 0 <= figure < math.inf:
            raise ValueError(f"A counter cannot be {figure!r} ({values!r}).")
        yield row


def added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Add counts up by their place."""
    return {where: one.get(where, 0) + other.get(where, 0) for where in {**one, **other}}
