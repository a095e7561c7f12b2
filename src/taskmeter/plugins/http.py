"""The pages of taskmeter on a Dask server, and its families in Dask's own ``/metrics``."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import dask.config
from distributed.core import Status
from distributed.scheduler import Scheduler
from distributed.worker import Worker
from prometheus_client import REGISTRY
from prometheus_client.core import Metric
from tornado import routing, web
from tornado.httputil import HTTPServerRequest

from taskmeter.exporters.exposition import accepts_gzip, compress
from taskmeter.exporters.prometheus import Exporter, Rendered
from taskmeter.history.moment import Past
from taskmeter.history.schema import HISTORY_VERSION, history_schema
from taskmeter.snapshots.schema import snapshot_schema
from taskmeter.snapshots.snapshot import Snapshot

logger = logging.getLogger("taskmeter")

#: A server in one of these states will never serve again.
_GONE = frozenset({Status.stopped, Status.closed, Status.failed})

#: Nor does one that has not begun to.
_NOT_SERVING = _GONE | {Status.undefined, Status.created, Status.init}


class _Page(web.RequestHandler):
    """One page. What it shows is an argument of its route, so servers share nothing."""

    def initialize(
        self,
        exporter: Exporter,
        page: str,
        answer: Callable[[HTTPServerRequest], Awaitable[Rendered]],
        turn: asyncio.Lock,
    ) -> None:
        self.exporter = exporter
        self.page = page
        self.answer = answer
        self.turn = turn

    async def get(self) -> None:
        try:
            # One at a time: every thread that computes makes the event loop wait for its turn.
            async with self.turn:
                page = await self.answer(self.request)
        except web.HTTPError as error:
            page = _text(f"taskmeter: {error.log_message}.\n")
            self.set_status(error.status_code)
        except Exception as error:  # noqa: BLE001 (a page must not hurt the server)
            self.exporter.count(f"page {self.page}", error)
            page = _apology(error)
            self.set_status(500)
        for name, value in page.headers.items():
            self.set_header(name, value)
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.finish(page.body)

    def compute_etag(self) -> None:
        """Return none: every answer is new, and a hash of it would cost the event loop."""


def _apology(error: Exception) -> Rendered:
    return _text(
        f"taskmeter could not give this page because of an error of its own "
        f"({type(error).__name__}), which is in the server's log.\n"
    )


def _text(sentence: str) -> Rendered:
    return Rendered(body=sentence.encode(), headers={"Content-Type": "text/plain; charset=utf-8"})


async def _metrics(exporter: Exporter, request: HTTPServerRequest) -> Rendered:
    names = request.query_arguments.get("name[]", ())
    return await _in_thread(
        exporter.show,
        exporter.begin(),
        request.headers.get("Accept", ""),
        request.headers.get("Accept-Encoding", ""),
        frozenset(name.decode("utf-8", "replace") for name in names),
    )


async def _snapshot(
    take: Callable[[], Awaitable[Snapshot]], request: HTTPServerRequest
) -> Rendered:
    taken = await take()
    return await _json(taken.to_dict, request)


async def _history(past: Past, request: HTTPServerRequest) -> Rendered:
    since = request.query_arguments.get("since")
    reading = past(None if since is None else _instant(since[-1].decode("utf-8", "replace")))
    return await _json(
        lambda: {"version": HISTORY_VERSION, "moments": [m.to_dict() for m in reading()]}, request
    )


def _instant(text: str) -> float:
    try:
        instant = float(text)
    except ValueError:
        instant = math.nan
    if not math.isfinite(instant):
        raise web.HTTPError(400, "since takes an instant in Unix time, such as 1798761600.5")
    return instant


async def _json(plain: Callable[[], Mapping[str, Any]], request: HTTPServerRequest) -> Rendered:
    """Return plain data as a page; it is made and written down in a thread."""
    packed = accepts_gzip(request.headers.get("Accept-Encoding", ""))
    return await _in_thread(_as_page, plain, packed)


def _as_page(plain: Callable[[], Mapping[str, Any]], packed: bool) -> Rendered:  # noqa: FBT001 (a thread's argument)
    pieces = json_pieces(plain())
    headers = {"Content-Type": "application/json", "Vary": "Accept-Encoding"}
    if packed:
        headers["Content-Encoding"] = "gzip"
        return Rendered(body=compress(pieces), headers=headers)
    return Rendered(body=b"".join(pieces), headers=headers)


async def _in_thread(function: Callable[..., Rendered], *args: Any) -> Rendered:
    return await asyncio.get_running_loop().run_in_executor(None, partial(function, *args))


def json_pieces(plain: Mapping[str, Any]) -> Iterator[bytes]:
    """Return a JSON object in pieces: an entry of a list or dict in it each.

    The encoder of the standard library lets no other thread run before it is done, and the whole
    of a snapshot takes it long.
    """
    mark = "{"
    for key, value in plain.items():
        yield f"{mark}{as_json(key)}: ".encode("ascii")
        mark = ", "
        if isinstance(value, dict) and value:
            yield from json_pieces(value)
        elif isinstance(value, (list, tuple)) and value:
            for number, item in enumerate(value):
                yield f"{', ' if number else '['}{as_json(item)}".encode("ascii")
            yield b"]"
        else:
            yield as_json(value).encode("ascii")
    yield b"}" if plain else b"{}"


def as_json(plain: Any) -> str:
    """Return JSON in ASCII: lone surrogates are escaped, a number that is not finite is null."""
    try:
        return json.dumps(plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(plain), allow_nan=False)


def _finite(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _finite(value) for key, value in plain.items()}
    if isinstance(plain, (list, tuple)):
        return [_finite(value) for value in plain]
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


class _Pages(web.Application):
    """All pages of one server, and its part in Dask's ``/metrics``."""

    def __init__(
        self,
        prefix: str,
        exporter: Exporter,
        snapshot: Callable[[], Awaitable[Snapshot]],
        past: Past | None,
    ) -> None:
        #: {page: gives the answer to a request for it}
        answers = {
            "metrics": partial(_metrics, exporter),
            "snapshot.json": partial(_snapshot, snapshot),
            "schema/snapshot.json": partial(_json, snapshot_schema),
        }
        if past is not None:
            answers["history.json"] = partial(_history, past)
            answers["schema/history.json"] = partial(_json, history_schema)
        super().__init__(
            [
                (
                    f"{prefix}taskmeter/{page}",
                    _Page,
                    {
                        "exporter": exporter,
                        "page": page,
                        "answer": answer,
                        "turn": asyncio.Lock(),
                    },
                )
                for page, answer in answers.items()
            ]
        )
        self.prefix = prefix
        self.join: _Join | None = None


class _Join:
    """A prometheus_client collector: the families in the one registry that Dask's page shows.

    That registry is the whole process's, so it can only tell the truth about a process with one
    server. Which servers there are changes; it is looked up at every scrape.

    Histograms and sums of squares are left out: Dask writes this page on the event loop with
    prometheus_client's encoder, which for 200 prefixes with six distributions each took 0.7 s
    instead of 0.06 s (two busy cores).
    """

    # The registry lives as long as the process. It must not keep a closed server alive.
    def __init__(self, server: Any, exporter: Exporter) -> None:
        self._server = weakref.ref(server)
        self._exporter = weakref.ref(exporter)

    def describe(self) -> list[Metric]:
        """Declare no names, so that the registry never finds a duplicate; it asks at any rate."""
        return []

    def collect(self) -> list[Metric]:
        """Return the families if this server is the only one in the process; never raise."""
        server, exporter = self._server(), self._exporter()
        if server is None or exporter is None or server.status in _GONE:
            self.leave()
            return []
        try:
            return exporter.collect() if _serving() == [server] else []
        except Exception as error:  # noqa: BLE001 (Dask's own families are on this page)
            exporter.count("Dask's metrics page", error)
            return []

    def leave(self) -> None:
        """Go out of the registry."""
        with suppress(KeyError):
            REGISTRY.unregister(self)


def _serving() -> list[Any]:
    """Return the servers of this process that serve; nannies have no figures and do not count."""
    servers = [*Scheduler._instances, *Worker._instances]  # noqa: SLF001 (Dask's only record of them)
    return [server for server in servers if server.status not in _NOT_SERVING]


class Mount:
    """The pages that were added to one server.

    Parameters
    ----------
    server
        The server's HTTP application.
    pages
        What was added to it.
    """

    def __init__(self, server: Any, pages: _Pages | None) -> None:
        self._server = weakref.ref(server)
        self._pages = pages

    @property
    def prefix(self) -> str | None:
        """What the paths of the pages start with, "/" mostly; None if the server has no HTTP."""
        return None if self._pages is None else self._pages.prefix

    @property
    def location(self) -> dict[str, str] | None:
        """Return the scheme and the prefix of the pages' addresses; None without an HTTP server."""
        if self._pages is None:
            return None
        secure = dask.config.get("distributed.scheduler.dashboard.tls.cert", None)
        return {"scheme": "https" if secure else "http", "prefix": self._pages.prefix}

    def unmount(self) -> None:
        """Take the pages away again; repeated calls change nothing."""
        server, pages = self._server(), self._pages
        self._pages = None
        if server is not None and pages is not None:
            _remove(server, pages)


def mount(
    server: Any,
    exporter: Exporter,
    *,
    snapshot: Callable[[], Awaitable[Snapshot]] | None = None,
    past: Past | None = None,
) -> Mount:
    """Add taskmeter's pages to a running Dask server, in place of any that are there already.

    Parameters
    ----------
    server
        A Scheduler or a Worker; one without an HTTP server gets no pages.
    exporter
        What the metrics are.
    snapshot
        Gives what ``snapshot.json`` shows; by default what the metrics show.
    past
        Gives what ``history.json`` shows; without it there is no such page.
    """
    application = getattr(server, "http_application", None)
    if application is None:
        logger.debug("taskmeter: %r has no HTTP server, so there is no page of metrics", server)
        return Mount(server, None)
    for earlier in [app for app in application.applications if isinstance(app, _Pages)]:
        _remove(server, earlier)

    async def take() -> Snapshot:
        return exporter.take()

    pages = _Pages(_http_prefix(server), exporter, snapshot or take, past)
    # First, not last: an application such as Jupyter's answers to every path.
    application.applications.insert(0, pages)
    if exporter.settings.join_dask_metrics:
        pages.join = _Join(server, exporter)
        REGISTRY.register(pages.join)
    return Mount(server, pages)


def _remove(server: Any, pages: _Pages) -> None:
    if pages.join is not None:
        pages.join.leave()
    with suppress(ValueError):
        server.http_application.applications.remove(pages)


def _http_prefix(server: Any) -> str:
    """Return what the paths of Dask's own pages start with (its option ``--dashboard-prefix``).

    A scheduler does not keep it, but every server has the page ``health`` unless its routes were
    configured away.
    """
    for rule in server.http_application.wildcard_router.rules:
        if isinstance(rule.matcher, routing.PathMatches):
            path = rule.matcher.regex.pattern.removesuffix("$")
            for page in ("health", "metrics"):
                if path.endswith("/" + page):
                    return path.removesuffix(page)
    return "/"
