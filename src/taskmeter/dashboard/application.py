"""The Bokeh application that serves taskmeter's pages. Needs Bokeh, as Dask's dashboard does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.resources import files
from typing import Any, Final

import dask.config
from bokeh.application import Application
from bokeh.application.handlers.function import FunctionHandler
from bokeh.models import CustomJS
from bokeh.server.tornado import BokehTornado
from distributed.dashboard.components.scheduler import env
from distributed.dashboard.core import DaskBokehTornado
from distributed.dashboard.scheduler import template_variables
from jinja2 import ChoiceLoader, FunctionLoader
from tornado.ioloop import IOLoop

from taskmeter.dashboard.panels.capacity import CapacityPanel
from taskmeter.dashboard.panels.compute import ComputePanel
from taskmeter.dashboard.panels.distribution import DistributionPanel
from taskmeter.dashboard.panels.durations import DurationsPanel
from taskmeter.dashboard.panels.panel import Panel, Update
from taskmeter.dashboard.panels.running import RunningPanel
from taskmeter.dashboard.panels.strip import StripPanel
from taskmeter.dashboard.panels.style import follow_theme
from taskmeter.dashboard.panels.table import FailuresPanel, PrefixesPanel, WorkersPanel
from taskmeter.dashboard.panels.timeline import TimelinePanel
from taskmeter.dashboard.panels.transfers import TransfersPanel
from taskmeter.dashboard.snapshot_cache import INTERVAL_SECONDS, Feed
from taskmeter.errors import contained, count_error
from taskmeter.garbage import no_collection
from taskmeter.views.figures.selection import Selection

#: The pictures, in the order in which a page has them.
PANELS: Final[tuple[type[Any], ...]] = (
    PrefixesPanel,
    DurationsPanel,
    ComputePanel,
    TimelinePanel,
    FailuresPanel,
    WorkersPanel,
    DistributionPanel,
    CapacityPanel,
    TransfersPanel,
    RunningPanel,
)

#: Where the page with everything is.
OVERVIEW: Final = "/taskmeter"

#: What the addresses of single pictures start with; JupyterLab's extension for Dask lists all that
#: start with its first word.
INDIVIDUAL: Final = "/individual-taskmeter-"

#: What a page says of itself in the tags of its first root.
_HIDDEN: Final = "hidden"

#: What a panel says of itself in its tags while it is scrolled out of sight.
_OUT_OF_SIGHT: Final = "out of sight"

#: Lets the server know when nobody looks, and which panels nobody sees.
_TELL_HIDDEN: Final = f"""
const tell = () => {{ roots[0].tags = document.hidden ? ["{_HIDDEN}"] : [] }}
document.addEventListener("visibilitychange", tell)
if (document.hidden) tell()
const watcher = new IntersectionObserver((entries) => {{
  for (const entry of entries) {{
    const root = roots.find((root) => "tm-" + root.name === entry.target.id)
    root.tags = entry.isIntersecting ? [] : ["{_OUT_OF_SIGHT}"]
  }}
}}, {{rootMargin: "200px"}})
for (const root of roots.slice(1)) {{
  const section = document.getElementById("tm-" + root.name)
  if (section != null) watcher.observe(section)
}}
"""


def of_dask(scheduler: Any) -> BokehTornado | None:
    """Return the application that Dask's own dashboard is; None if it has none."""
    application = getattr(scheduler, "http_application", None)
    for one in getattr(application, "applications", ()):
        if isinstance(one, BokehTornado) and not isinstance(one, _Server):
            return one
    return None


class _Server(DaskBokehTornado):
    """An application beside Dask's, which names Dask's pages, too, to those who ask for a list.

    Dask's ``/individual-plots.json`` lists the pages of the first Bokeh application it finds.
    """

    def __init__(
        self, beside: BokehTornado, applications: dict[str, Application], **options: Any
    ) -> None:
        self._beside = beside
        super().__init__(applications, **options)

    @property
    def app_paths(self) -> set[str]:
        """The addresses of all pages."""
        paths: set[str] = super().app_paths | self._beside.app_paths
        return paths


class _Maker(FunctionHandler):
    """Makes the document of a page, and says when its session is over.

    Bokeh's own way to say so collects the garbage of the whole process once more.

    Parameters
    ----------
    make
        Fills a document.
    over
        Gets the identity of a session that is over.
    """

    def __init__(self, make: Callable[[Any], None], over: Callable[[str], None]) -> None:
        super().__init__(make)
        self._over = over

    async def on_session_destroyed(self, session_context: Any) -> None:
        """Say so."""
        self._over(session_context.id)


class Pages:
    """All pages of one scheduler.

    Parameters
    ----------
    scheduler
        The Scheduler.
    beside
        Dask's dashboard.
    feed
        Gives the numbers.
    errors
        ``{where: times}``: where errors are counted.
    """

    def __init__(
        self, scheduler: Any, beside: BokehTornado, feed: Feed, errors: dict[str, int]
    ) -> None:
        self._scheduler = scheduler
        self._feed = feed
        self._errors = errors
        #: {identity of its session: page}
        self._open: dict[str, Page] = {}
        overview = partial(self._make, panels=(StripPanel, *PANELS), template="overview.html")
        makers = {
            OVERVIEW: overview,
            **{
                INDIVIDUAL + kind.name: partial(self._make, panels=(kind,), template="panel.html")
                for kind in PANELS
            },
        }
        options = dask.config.get("distributed.scheduler.dashboard.bokeh-application")
        self._server = _Server(
            beside,
            {path: Application(_Maker(make, self._over)) for path, make in makers.items()},
            prefix=beside.prefix,
            use_index=False,
            extra_websocket_origins=sorted(beside.websocket_origins),
            absolute_url="",
            **{name: v for name, v in options.items() if name != "allow_websocket_origin"},
        )
        self._server.initialize(IOLoop.current())
        self._server.start()
        self._links = contained(errors, "dashboard link", _Links)(scheduler)
        # First, not last: it has to be found before Dask's.
        scheduler.http_application.applications.insert(0, self._server)

    @property
    def open(self) -> int:
        """Pages that are open, or were until some seconds ago."""
        return len(self._open)

    def remove(self) -> None:
        """Take all pages away; repeated calls change nothing."""
        applications = self._scheduler.http_application.applications
        if self._server not in applications:
            return
        applications.remove(self._server)
        if self._links is not None:
            self._links.remove()
        for page in self._open.values():
            page.pause()
        self._open.clear()
        # the server is on this event loop, which must not wait for itself
        self._server.stop(wait=False)

    def _over(self, session: str) -> None:
        page = self._open.pop(session, None)
        if page is not None:
            page.leave()

    def _make(self, doc: Any, *, panels: Sequence[type[Any]], template: str) -> None:
        page = Page(doc, [kind() for kind in panels], self._feed, self._errors)
        self._open[doc.session_context.id] = page
        doc.template = _environment().get_template(template)
        doc.title = "Dask: taskmeter"
        doc.template_variables.update(template_variables(self._scheduler))
        doc.template_variables["panels"] = [
            {"name": panel.name, "title": panel.title, "caption": panel.caption}
            for panel in page.panels
            if panel.title
        ]


class Page:
    """One page in one browser, which costs nothing while it is hidden or after it was closed.

    Parameters
    ----------
    doc
        Its Bokeh document.
    panels
        Its pictures.
    feed
        Gives the numbers.
    errors
        ``{where: times}``.
    """

    def __init__(
        self,
        doc: Any,
        panels: Sequence[Panel],
        feed: Feed,
        errors: dict[str, int],
    ) -> None:
        self.panels = tuple(panels)
        self._doc = doc
        self._feed = feed
        self._errors = errors
        self._ticking: Any = None
        self._ticks = 0
        self._selection = Selection()
        #: panels that came into sight
        self._seen: set[Panel] = set()
        with doc.models.freeze():
            # one look at all models is enough
            for panel in panels:
                doc.add_root(panel.root)
        for panel in panels:
            panel.on_choice = self._choose
            for control in panel.controls:
                control.on_change("value", self._changed)
            panel.root.on_change("tags", partial(self._in_sight, panel))
        panels[0].root.on_change("tags", self._looked_at)
        doc.js_on_event(
            "document_ready",
            follow_theme([plot for panel in panels for plot in panel.plots]),
            CustomJS(args={"roots": [panel.root for panel in panels]}, code=_TELL_HIDDEN),
        )
        self._begin()

    def _begin(self) -> None:
        if self._ticking is None:
            self._feed.join(self)
            self._ticking = self._doc.add_periodic_callback(
                self._tick, round(INTERVAL_SECONDS * 1000)
            )
            self._doc.add_next_tick_callback(self._tick)

    def pause(self) -> None:
        """Leave it as it is, which costs nothing, until the reader looks at it again."""
        if self._ticking is not None:
            self._doc.remove_periodic_callback(self._ticking)
            self.leave()

    def leave(self) -> None:
        """Note that its session is over, and its callbacks with it."""
        self._ticking = None
        self._feed.leave(self)

    def _looked_at(self, attr: str, old: Any, new: Any) -> None:  # noqa: ARG002 (Bokeh's signature)
        if _HIDDEN in new:
            self.pause()
        else:
            self._begin()

    def _in_sight(self, panel: Panel, attr: str, old: Any, new: Any) -> None:  # noqa: ARG002 (Bokeh's)
        if _OUT_OF_SIGHT not in new:
            self._seen.add(panel)

    def _choose(self, selection: Selection) -> None:
        self._selection = selection
        self._show_all()

    def _changed(self, attr: str, old: Any, new: Any) -> None:  # noqa: ARG002 (Bokeh's signature)
        self._show_all()

    def _show_all(self) -> None:
        self._ticks = 0
        if self._ticking is not None:
            self._doc.add_next_tick_callback(self._tick)

    async def _tick(self) -> None:
        """Show new numbers: worked out in a thread, and shown in one turn of the loop a panel."""
        if self._ticking is None or not self._connected():
            return
        try:
            view = await self._feed.view()
            selection = self._selection
            due = self._due()
            jobs = [panel.job(view, selection) for panel in due]
            updates = await asyncio.get_running_loop().run_in_executor(None, _work, jobs)
            for panel, update in zip(due, updates, strict=True):
                show = partial(self._show, panel, update, selection)
                self._doc.add_next_tick_callback(show)
        except Exception:  # noqa: BLE001 (a page must not hurt the scheduler)
            count_error(self._errors, "page")

    def _show(self, panel: Panel, update: Update, selection: Selection) -> None:
        if self._ticking is None or selection is not self._selection:
            return
        try:
            with no_collection():
                panel.show(update)
        except Exception:  # noqa: BLE001 (a page must not hurt the scheduler)
            count_error(self._errors, "page")

    def _due(self) -> list[Panel]:
        """Return the panels that are due: all at first, and after the reader chose something."""
        ticks, seen = self._ticks, self._seen
        self._ticks += 1
        self._seen = set()
        return [
            panel
            for place, panel in enumerate(self.panels)
            if not ticks
            or panel in seen
            or ((ticks + place) % panel.every == 0 and _OUT_OF_SIGHT not in panel.root.tags)
        ]

    def _connected(self) -> bool:
        context = self._doc.session_context
        session = None if context is None else context.session
        return session is None or session.connection_count > 0


def _work(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    return [job() for job in jobs]


def _environment() -> Any:
    """Return Dask's templates, and ours beside them."""
    return env.overlay(loader=ChoiceLoader([FunctionLoader(_template), env.loader]))


def _template(name: str) -> str | None:
    if name not in {"overview.html", "panel.html"}:
        return None
    return files("taskmeter.dashboard").joinpath(name).read_text("utf-8")


class _Links:
    """Links to the pages in the navigation of Dask's own, which are the same lists for all of them.

    Parameters
    ----------
    scheduler
        The Scheduler.
    """

    def __init__(self, scheduler: Any) -> None:
        found = template_variables(scheduler)
        #: [(list, what was added to it)]
        self._added: list[tuple[list[Any], Any]] = []
        pages, plots = found["pages"], found["plots"]
        place = pages.index("info") if "info" in pages else len(pages)
        pages.insert(place, OVERVIEW.strip("/"))
        self._added.append((pages, OVERVIEW.strip("/")))
        for kind in PANELS:
            link = {
                "url": INDIVIDUAL.strip("/") + kind.name,
                "name": f"Taskmeter {kind.name.title()}",
            }
            plots.append(link)
            self._added.append((plots, link))
        plots.sort(key=lambda plot: plot["name"])

    def remove(self) -> None:
        """Take the links away again."""
        for links, link in self._added:
            with suppress(ValueError):
                links.remove(link)
        self._added.clear()
