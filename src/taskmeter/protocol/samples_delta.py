"""What a worker measured since its last parcel: values while they are few, else distributions."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol import validate
from taskmeter.protocol.report import ReportError
from taskmeter.protocol.series import MEASURES, TRANSFER_BYTES, TRANSFER_SECONDS, Series

#: Number of the format below. A parcel with another number is counted and ignored.
PROTOCOL = 1

_FLOAT_BYTES = array("d").itemsize


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupActivity:
    """When attempts of a group ran, told as ages, which need no common clock.

    Parameters
    ----------
    group, prefix
        Which group.
    span_id
        Dask's identity of the span that its latest task belongs to; empty if there is none.
    start_age, stop_age
        Seconds since the first start and since the last end.
    """

    group: str
    prefix: str
    span_id: str = ""
    start_age: float
    stop_age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowest:
    """The slowest ok attempt of a prefix in a parcel.

    Parameters
    ----------
    prefix, key
        Which attempt; a long key is cut.
    seconds
        How long it took.
    age
        Seconds since it ended.
    """

    prefix: str
    key: str
    seconds: float
    age: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What one meter measured since its last parcel.

    Parcels hold what was added, not totals, so each counts once: by its number a second copy is
    known, and so is one that is missing.

    Parameters
    ----------
    meter
        Identity of the meter.
    number
        1 for its first parcel, and 1 more for each that follows.
    values
        ``{series: floats in the machine's form, 8 bytes each}``
    distributions
        ``{series: distribution}``, where there are many values.
    groups
        Those in which attempts ended.
    slowest
        One attempt for each prefix in which some ended ok.
    """

    meter: str
    number: int
    values: Mapping[Series, bytes]
    distributions: Mapping[Series, Distribution]
    groups: tuple[GroupActivity, ...] = ()
    slowest: tuple[Slowest, ...] = ()

    def transfers(self, most: int) -> Iterator[tuple[str, float, float]]:
        """Return (source, bytes, seconds) of transfers, at most so many, evenly chosen.

        Where there are so many that they came as a distribution, there are none.
        """
        found = []
        for series, data in self.values.items():
            if series.measure == TRANSFER_BYTES:
                sizes, seconds = array("d"), array("d")
                sizes.frombytes(data)
                seconds.frombytes(self.values.get(series._replace(measure=TRANSFER_SECONDS), b""))
                # both are recorded at once
                if len(sizes) == len(seconds):
                    found += [(series.what, *each) for each in zip(sizes, seconds, strict=True)]
        yield from found[:: max(1, math.ceil(len(found) / most))]


def to_plain(parcel: Parcel) -> list[Any]:
    """Return a parcel as nested lists of numbers, strings and bytes."""
    return [
        PROTOCOL,
        parcel.meter,
        parcel.number,
        [[*series, data] for series, data in parcel.values.items()],
        [[*series, d.to_bytes()] for series, d in parcel.distributions.items()],
        [[g.group, g.prefix, g.span_id, g.start_age, g.stop_age] for g in parcel.groups],
        [[s.prefix, s.key, s.seconds, s.age] for s in parcel.slowest],
    ]


def from_plain(plain: Any) -> Parcel:
    """Make the parcel that `to_plain` was called on.

    Raises
    ------
    ReportError
        If it has another protocol number, or is not a parcel at all.
    """
    if not isinstance(plain, (list, tuple)) or not plain:
        raise ReportError("garbled parcel")
    if plain[0] != PROTOCOL:
        raise ReportError("parcel of another protocol number")
    try:
        _, meter, number, values, distributions, groups, slowest = plain
        return Parcel(
            meter=validate.text(meter),
            number=validate.count(number, least=1),
            values={_series(*row[:4]): _floats(row[4]) for row in values},
            distributions={
                _series(*row[:4]): Distribution.from_bytes(row[4]) for row in distributions
            },
            groups=tuple(
                GroupActivity(
                    group=validate.text(group),
                    prefix=validate.text(prefix),
                    span_id=validate.text(span_id),
                    start_age=validate.seconds(start_age),
                    stop_age=validate.seconds(stop_age),
                )
                for group, prefix, span_id, start_age, stop_age in groups
            ),
            slowest=tuple(
                Slowest(
                    prefix=validate.text(prefix),
                    key=validate.text(key),
                    seconds=validate.seconds(seconds),
                    age=validate.seconds(age),
                )
                for prefix, key, seconds, age in slowest
            ),
        )
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise ReportError("garbled parcel") from error


def _series(measure: Any, prefix: Any, what: Any, context: Any) -> Series:
    if measure not in MEASURES:
        raise ValueError(measure)
    return Series(measure, validate.text(prefix), validate.text(what), validate.text(context))


def _floats(data: Any) -> bytes:
    if not isinstance(data, bytes) or len(data) % _FLOAT_BYTES:
        raise ValueError("not floats")
    return data
