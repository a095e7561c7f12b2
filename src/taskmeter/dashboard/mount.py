"""taskmeter's pages in Dask's dashboard: one with everything, and one for each picture.

Dask's dashboard is a Bokeh application on the scheduler's HTTP server, and these pages are another
one beside it. Where Dask has no dashboard, for want of Bokeh or because nobody wants it, there are
no pages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from taskmeter.dashboard.snapshot_cache import Feed
from taskmeter.errors import logger
from taskmeter.history.moment import Past
from taskmeter.snapshots.snapshot import Snapshot


def add_pages(
    scheduler: Any,
    take: Callable[[], Snapshot],
    past: Past,
    *,
    errors: dict[str, int] | None = None,
) -> Callable[[], None]:
    """Add the pages to a running scheduler's dashboard.

    Parameters
    ----------
    scheduler
        The Scheduler.
    take
        Takes a snapshot with details, which is done once a second while a page is open.
    past
        Gives what happened after an instant.
    errors
        ``{where: times}``: where errors of the pages are counted.

    Returns
    -------
    callable
        Takes the pages away again; repeated calls change nothing.
    """
    applications = getattr(getattr(scheduler, "http_application", None), "applications", ())
    if not any(hasattr(one, "app_paths") for one in applications):
        logger.debug("taskmeter: there are no pages, because Dask shows no dashboard")
        return _nothing
    try:
        # Bokeh is optional, and slow to import: pip install 'taskmeter[dashboard]'
        from taskmeter.dashboard.application import Pages, of_dask  # noqa: PLC0415 (see above)
    except ImportError as error:
        logger.debug("taskmeter: there are no pages in the dashboard: %s", error)
        return _nothing
    beside = of_dask(scheduler)
    if beside is None:
        return _nothing
    return Pages(scheduler, beside, Feed(take, past), {} if errors is None else errors).remove


def _nothing() -> None:
    """Take away the pages that there are not."""
