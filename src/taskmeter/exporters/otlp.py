"""The push by OTLP: a thread that sends what the cluster did to an OpenTelemetry receiver."""

from __future__ import annotations

import logging
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterable
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from taskmeter.catalogue import FAMILIES, Family, Figures
from taskmeter.config import Settings
from taskmeter.exporters.cardinality import fold
from taskmeter.exporters.prometheus import this_build
from taskmeter.exporters.samples import read
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import utf8_safe

logger = logging.getLogger("taskmeter")

#: Where a receiver takes metrics, if only its host and port are known.
_PATH = "/v1/metrics"


def metrics_url(endpoint: str) -> str:
    """Return where an endpoint takes metrics: as it stands, or at the usual path if it has none."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path.strip("/") else urlunsplit(parts._replace(path=_PATH))


class OtlpExporter:
    """Pushes the figures of the cluster to an OpenTelemetry receiver, again and again.

    It works in a daemon thread of its own and never raises there: what goes wrong is counted in
    `errors` and logged the first time, and the next push takes place at its time. Since the
    figures are cumulative, a push that was lost loses nothing.

    Parameters
    ----------
    take
        Gives the current snapshot. It is called in the exporter's thread, so it must be safe to
        call there and may block: where a snapshot can be had on an event loop only, `take` goes
        there and waits for the answer. If it fails, or hangs, that costs pushes and nothing else.
    endpoint
        The receiver, such as ``http://localhost:4318``; metrics go to ``/v1/metrics`` there unless
        it has a path of its own.
    interval_seconds
        Time between two pushes; the first one comes after that time.
    settings
        What metric names start with, and how many prefixes keep their name.
    families
        What is pushed.

    Raises
    ------
    ImportError
        If OpenTelemetry is not installed; one sentence says how to get it.

    Notes
    -----
    The SDK's environment variables hold: ``OTEL_EXPORTER_OTLP_HEADERS`` (where a token goes),
    ``..._TIMEOUT``, ``..._CERTIFICATE``, ``..._COMPRESSION``, and ``OTEL_RESOURCE_ATTRIBUTES``.
    """

    def __init__(
        self,
        take: Callable[[], Snapshot],
        *,
        endpoint: str,
        interval_seconds: float = 15.0,
        settings: Settings | None = None,
        families: Iterable[Family] = FAMILIES,
    ) -> None:
        # imported here: it is optional, and takes long to import even where it is not used
        from taskmeter.exporters import otel  # noqa: PLC0415

        self._otel = otel
        self._take = take
        self._interval = interval_seconds
        self._settings = Settings() if settings is None else settings
        self._families = tuple(families)
        self._build = this_build()
        self._resource = otel.resource(str(uuid4()))
        self.url = metrics_url(endpoint)
        self._sender = otel.Sender(self.url)
        #: pushes that were delivered
        self.pushes = 0
        #: {where: times} something went wrong and was contained; only the exporter's thread writes
        self._errors: dict[str, int] = {}
        self._last: Snapshot | None = None
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def errors(self) -> dict[str, int]:
        """``{where: times}`` something went wrong and was contained, as it stands now.

        They belong in the errors of the snapshots that `take` gives; they are not added to them
        here.
        """
        return dict(self._errors)

    def start(self) -> None:
        """Begin; repeated calls change nothing."""
        if self._thread is None and not self._ending.is_set():
            self._thread = threading.Thread(target=self._run, name="taskmeter otlp", daemon=True)
            self._thread.start()

    def stop(self, last: Snapshot | None = None, *, patience_seconds: float = 2.0) -> None:
        """End; repeated calls change nothing.

        Do not wait here on the event loop that `take` needs, ``await
        asyncio.to_thread(exporter.stop, last)`` instead: the thread may be in the midst of it.

        Parameters
        ----------
        last
            Is pushed before the end, so that what happened since the last push is not lost.
        patience_seconds
            A push that takes longer is left alone; it ends with the process.
        """
        if self._ending.is_set():
            return
        self._last = last
        self._ending.set()
        if self._thread is not None:
            self._thread.join(patience_seconds)
        try:
            self._sender.close()
        except Exception as error:  # noqa: BLE001 (the end of a process is no time for errors)
            logger.debug("taskmeter: OTLP exporter was not closed cleanly: %s", error)

    # In the thread

    def _run(self) -> None:
        while not self._ending.wait(self._interval):
            self._push(self._take)
        last = self._last
        if last is not None:
            self._push(lambda: last)

    def _push(self, take: Callable[[], Snapshot]) -> None:
        where = "OTLP snapshot"
        try:
            snapshot = take()
            where = "OTLP push"
            self._send(snapshot)
        except (Exception, CancelledError) as error:  # noqa: BLE001 (the host must not be hurt)
            self._count(where, error)
        else:
            self.pushes += 1

    def _send(self, snapshot: Snapshot) -> None:
        prefixes, folded = fold(snapshot.prefixes, self._settings.max_prefixes)
        figures = Figures(
            snapshot=replace(snapshot, prefixes=prefixes),
            folded=folded,
            errors={utf8_safe(where): times for where, times in snapshot.errors.items()},
            collect_seconds=None,
            build=self._build,
        )
        metrics = read(
            figures,
            self._otel.writer(start=snapshot.start, at=snapshot.at),
            scope="scheduler",
            settings=self._settings,
            families=self._families,
            report=self._count,
        )
        self._sender.send(self._otel.metrics_data(list(metrics), of=self._resource))

    def _count(self, where: str, error: BaseException) -> None:
        self._errors[where] = times = self._errors.get(where, 0) + 1
        if times == 1:
            logger.warning(
                "taskmeter: error in %s to %s, which is counted and tried again every %g s: %s: %s",
                where,
                # without a password that is a part of it
                urlsplit(self.url).hostname,
                self._interval,
                type(error).__name__,
                error,
            )


def start_otlp(take: Callable[[], Snapshot], settings: Settings) -> OtlpExporter | None:
    """Start the push that the settings ask for, and give it; never raises.

    Parameters
    ----------
    take
        Gives the current snapshot, in any thread; see `OtlpExporter`.
    settings
        Where to, and how often.

    Returns
    -------
    OtlpExporter or None
        None where none is asked for, or OpenTelemetry is not installed, which is logged.
    """
    if not settings.otlp_endpoint:
        return None
    try:
        exporter = OtlpExporter(
            take,
            endpoint=settings.otlp_endpoint,
            interval_seconds=settings.otlp_interval,
            settings=settings,
        )
        exporter.start()
    except Exception as error:  # noqa: BLE001 (Dask must start all the same)
        logger.warning("taskmeter: metrics are not pushed by OTLP: %s", error)
        return None
    return exporter
