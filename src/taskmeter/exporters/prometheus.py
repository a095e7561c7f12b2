"""Prometheus: a snapshot as metric families, for an endpoint of their own and for Dask's."""

from __future__ import annotations

import importlib.metadata
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from prometheus_client.core import Metric

from taskmeter.catalogue import FAMILIES, Build, Family, Figures, Row, Scope
from taskmeter.config import Settings
from taskmeter.core.report import PROTOCOL
from taskmeter.core.snapshot import Snapshot
from taskmeter.exporters.exposition import Reading, accepts_gzip, compress, negotiate
from taskmeter.exporters.folding import fold, printable
from taskmeter.version import __version__

logger = logging.getLogger("taskmeter")

#: Is told the name of a family that could not be read, and why.
Report = Callable[[str, Exception], None]


def this_build() -> Build:
    """Give the versions of what is installed here."""
    try:
        distributed = importlib.metadata.version("distributed")
    except importlib.metadata.PackageNotFoundError:
        distributed = "unknown"
    return Build(version=__version__, distributed=distributed, protocol=PROTOCOL)


def read(
    figures: Figures, *, scope: Scope, namespace: str, names: Collection[str], report: Report
) -> Iterator[Reading]:
    """Give the readings of all families, one by one.

    A family that raises costs that family this once and is one more error in `figures`, which the
    family of errors, the last one, already shows.

    Parameters
    ----------
    figures
        What there is to read.
    scope, namespace
        What the names are made of.
    names
        Only families with one of these names, or with such samples; all of them if empty.
    report
        Is told of each family that raised.
    """
    for family in FAMILIES:
        name = family.full_name(scope, namespace)
        if names and name not in names and name + family.suffix not in names:
            continue
        try:
            rows = tuple(family.read(figures))
            _check(family, rows)
        except Exception as error:  # noqa: BLE001 (one family must not cost the others)
            where = f"metric {family.name}"
            report(where, error)
            figures = replace(figures, errors=_added(figures.errors, {where: 1}))
            continue
        yield Reading(family=family, name=name, help=family.help_in(scope), rows=rows)


def _check(family: Family, rows: Iterable[Row]) -> None:
    """Refuse what would make the whole exposition unreadable."""
    for values, number in rows:
        if family.kind == "counter" and not 0 <= number < math.inf:
            raise ValueError(f"A counter cannot be {number!r} ({values!r}).")


def _added(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {where: one.get(where, 0) + other.get(where, 0) for where in {**one, **other}}


def as_metric(reading: Reading) -> Metric:
    """Give a reading as prometheus_client's collectors give it."""
    family = reading.family
    metric = Metric(reading.name, reading.help, family.kind, family.unit)
    for values, number in reading.rows:
        metric.add_sample(
            reading.name + family.suffix,
            dict(zip(family.labels, values, strict=True)),
            float(number),
        )
    return metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """An answer to a scraper.

    Parameters
    ----------
    body
        The exposition, compressed if `headers` say so.
    headers
        ``{name: value}`` to send with it.
    """

    body: bytes
    headers: Mapping[str, str]


class Exporter:
    """Shows the figures of one server. Each server has its own, and they share nothing.

    Parameters
    ----------
    take
        Gives the current snapshot.
    scope
        Whose figures they are, which the names tell.
    settings
        How it behaves.
    build
        The versions to show; by default those installed here.
    clock
        Measures how long a scrape takes.
    """

    def __init__(
        self,
        take: Callable[[], Snapshot],
        *,
        scope: Scope,
        settings: Settings,
        build: Build | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.take = take
        self.scope: Scope = scope
        self.settings = settings
        self.build = this_build() if build is None else build
        #: {where: times} something went wrong and was contained
        self.errors: dict[str, int] = {}
        self._clock = clock
        self._collect_seconds: float | None = None

    def render(
        self, accept: str = "", accept_encoding: str = "", names: Collection[str] = ()
    ) -> Rendered:
        """Give the answer to one scrape.

        Parameters
        ----------
        accept, accept_encoding
            The scraper's headers; empty if it sent none.
        names
            Only these families or samples; all of them if empty.

        Raises
        ------
        Exception
            If there is no snapshot to be had. A family that cannot be read only lacks.
        """
        began = self._clock()
        chosen = negotiate(accept)
        body = chosen.encode(self._read(names))
        # Caches must not hand one scraper's format to another.
        headers = {"Content-Type": chosen.content_type, "Vary": "Accept, Accept-Encoding"}
        if accepts_gzip(accept_encoding):
            body = compress(body)
            headers["Content-Encoding"] = "gzip"
        self._collect_seconds = self._clock() - began
        return Rendered(body=body, headers=headers)

    def collect(self) -> list[Metric]:
        """Give the families as prometheus_client's collectors do.

        Raises
        ------
        Exception
            If there is no snapshot to be had. A family that cannot be read only lacks.
        """
        began = self._clock()
        metrics = [as_metric(reading) for reading in self._read(())]
        self._collect_seconds = self._clock() - began
        return metrics

    def count(self, where: str, error: Exception) -> None:
        """Count an error that was contained, and log the first of its kind."""
        self.errors[where] = self.errors.get(where, 0) + 1
        if self.errors[where] == 1:
            logger.warning(
                "taskmeter: error in %s; it is counted, and Dask goes on", where, exc_info=error
            )

    def _read(self, names: Collection[str]) -> Iterator[Reading]:
        snapshot = self.take()
        prefixes, folded = fold(snapshot.prefixes, self.settings.max_prefixes)
        errors = {printable(where): times for where, times in snapshot.errors.items()}
        figures = Figures(
            snapshot=replace(snapshot, prefixes=prefixes),
            folded=folded,
            errors=_added(errors, self.errors),
            collect_seconds=self._collect_seconds,
            build=self.build,
        )
        return read(
            figures,
            scope=self.scope,
            namespace=self.settings.namespace,
            names=names,
            report=self.count,
        )
