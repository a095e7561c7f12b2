"""Prometheus: a snapshot as metric families, for an endpoint of their own and for Dask's."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock
from time import perf_counter
from typing import TypeVar

from prometheus_client.core import Metric

from taskmeter.catalogue import FAMILIES, Build, Family, Figures, Scope
from taskmeter.config import Settings
from taskmeter.exporters.cardinality import fold
from taskmeter.exporters.encoded_cache import Written
from taskmeter.exporters.exposition import accepts_gzip, compress, negotiate
from taskmeter.exporters.samples import Reading, added, read
from taskmeter.protocol.message import PROTOCOL
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import utf8_safe
from taskmeter.version import __version__

_Written = TypeVar("_Written")

logger = logging.getLogger("taskmeter")


def this_build() -> Build:
    """Return the versions of what is installed here."""
    try:
        distributed = importlib.metadata.version("distributed")
    except importlib.metadata.PackageNotFoundError:
        distributed = "unknown"
    return Build(version=__version__, distributed=distributed, protocol=PROTOCOL)


def as_metric(reading: Reading) -> Metric:
    """Return a reading of a family that is no histogram as prometheus_client's collectors do."""
    family = reading.family
    metric = Metric(reading.name, reading.help, family.kind, family.unit)
    for values, number in reading.numbers:
        metric.add_sample(
            reading.name + family.suffix,
            dict(zip(family.labels, values, strict=True)),
            float(number),
            timestamp=reading.at,
        )
    return metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one scrape shows.

    Parameters
    ----------
    snapshot
        The figures.
    collect_seconds
        How long the scrape before this one held the event loop; None in the first.
    """

    snapshot: Snapshot
    collect_seconds: float | None


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
        Measures how long a scrape holds the event loop.
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
        self._counting = Lock()
        #: {media type: histograms as they were written last}
        self._written: dict[str, Written] = {}
        self._collect_seconds: float | None = None

    def render(
        self, accept: str = "", accept_encoding: str = "", names: Collection[str] = ()
    ) -> Rendered:
        """Return the answer to one scrape, all at once: `begin`, then `show`."""
        return self.show(self.begin(), accept, accept_encoding, names)

    def begin(self) -> Taken:
        """Take the snapshot of one scrape, on the server's event loop.

        Raises
        ------
        Exception
            If there is no snapshot to be had.
        """
        began = self._clock()
        taken = Taken(snapshot=self.take(), collect_seconds=self._collect_seconds)
        self._collect_seconds = self._clock() - began
        return taken

    def show(
        self,
        taken: Taken,
        accept: str = "",
        accept_encoding: str = "",
        names: Collection[str] = (),
    ) -> Rendered:
        """Write it down, in any thread; what takes long is done in short pieces.

        A family that cannot be read only lacks.

        Parameters
        ----------
        taken
            What `begin` gave.
        accept, accept_encoding
            The scraper's headers; empty if it sent none.
        names
            Only these families or samples; all of them if empty.
        """
        chosen = negotiate(accept)
        encoder = chosen.encoder(self._written.setdefault(chosen.media_type, Written()))
        pieces = chain(self._read(taken, encoder.write, names), [encoder.end()])
        # Caches must not hand one scraper's format to another.
        headers = {"Content-Type": chosen.content_type, "Vary": "Accept, Accept-Encoding"}
        if accepts_gzip(accept_encoding):
            headers["Content-Encoding"] = "gzip"
            return Rendered(body=compress(pieces), headers=headers)
        return Rendered(body=b"".join(pieces), headers=headers)

    def collect(self) -> list[Metric]:
        """Return the families as prometheus_client's collectors do, but for the distributions.

        Raises
        ------
        Exception
            If there is no snapshot to be had. A family that cannot be read only lacks.
        """
        began = self._clock()
        families = [family for family in FAMILIES if not family.of_distributions]
        taken = Taken(snapshot=self.take(), collect_seconds=self._collect_seconds)
        metrics = list(self._read(taken, lambda reading: [as_metric(reading)], (), families))
        self._collect_seconds = self._clock() - began
        return metrics

    def count(self, where: str, error: Exception) -> None:
        """Count an error that was contained, and log the first of its kind."""
        with self._counting:
            self.errors[where] = times = self.errors.get(where, 0) + 1
        if times == 1:
            logger.warning(
                "taskmeter: error in %s; it is counted, and Dask goes on", where, exc_info=error
            )

    def _read(
        self,
        taken: Taken,
        write: Callable[[Reading], Iterable[_Written]],
        names: Collection[str],
        families: Iterable[Family] = FAMILIES,
    ) -> Iterator[_Written]:
        snapshot = taken.snapshot
        prefixes, folded = fold(snapshot.prefixes, self.settings.max_prefixes)
        errors = {utf8_safe(where): times for where, times in snapshot.errors.items()}
        figures = Figures(
            snapshot=replace(snapshot, prefixes=prefixes),
            folded=folded,
            errors=added(errors, self.errors),
            collect_seconds=taken.collect_seconds,
            build=self.build,
        )
        return read(
            figures,
            write,
            scope=self.scope,
            settings=self.settings,
            names=names,
            families=families,
            report=self.count,
        )
