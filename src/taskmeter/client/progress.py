"""Progress bars with the remaining time, for some futures or for all work of the scheduler."""

from __future__ import annotations

import sys
import time
from typing import IO, TYPE_CHECKING, cast

from distributed import Client
from distributed.client import default_client, futures_of
from distributed.utils import is_kernel
from rich.live import Live

from taskmeter.client.following import Following
from taskmeter.client.local_progress import LINE_SECONDS, LocalProgress
from taskmeter.views.tables.bars import bars_view, headline
from taskmeter.views.terminal.tables import console

if TYPE_CHECKING:
    from taskmeter.client.progress_widget import ProgressWidget


def progress(
    futures: object = None,
    *,
    client: Client | None = None,
    notebook: bool | None = None,
    interval: float = 0.5,
) -> ProgressWidget | LocalProgress | None:
    """Show how far some work is and how long it will still take, as ``about 3 min (2-5 min)``.

    As `distributed.progress` does, it blocks in a console until the work is done or something of it
    fails, and in a notebook returns at once and leaves a widget on screen; there it must be the
    last thing in its cell. The interval holds with 90 % probability. Where it is too wide to say
    anything, it says "at least ..." and which running tasks make it so.

    Parameters
    ----------
    futures
        Futures, or collections that were persisted: they and what they depend on are shown. By
        default everything that the scheduler has to do.
    client
        A `distributed.Client`; by default that of the futures, or the default one. With an
        asynchronous one, await the result in a console. Where there is none, what Dask computes in
        this process is shown: use it as a ``with`` statement, around ``x.compute()``.
    notebook
        Show a widget; by default, if this is a notebook. It needs ipywidgets
        (``pip install 'taskmeter[notebook]'``); without, it is as in a console.
    interval
        Seconds between two looks; they are rarer where looking takes long.

    Raises
    ------
    NotInstalled
        If the cluster has no taskmeter.

    Notes
    -----
    The time that is left of chosen futures is what they would take if they had the whole cluster.

    Examples
    --------
    >>> import taskmeter
    >>> client = Client(processes=False, dashboard_address=":0")
    >>> taskmeter.install(client)
    >>> taskmeter.progress(client.map(abs, range(100)))  # doctest: +ELLIPSIS
    100 of 100 tasks in ...
    >>> client.close()

    Without a cluster:

    >>> import dask
    >>> with taskmeter.progress():  # doctest: +ELLIPSIS
    ...     dask.delayed(sum)([1, 2]).compute(scheduler="threads")
    3
    1 of 1 task in ...
    """
    chosen = None if futures is None else list(futures_of(futures))
    if client is None:
        try:
            client = chosen[0].client if chosen else default_client()
        except ValueError:
            return LocalProgress(interval)
    following = Following(client, chosen, interval)
    if is_kernel() if notebook is None else notebook:
        try:
            # its ipywidgets are optional
            from taskmeter.client.progress_widget import ProgressWidget  # noqa: PLC0415
        except ImportError:
            pass
        else:
            return ProgressWidget(following)
    return cast("None", client.sync(_follow, following, sys.stdout))


async def _follow(following: Following, out: IO[str]) -> None:
    paper = console(out)
    if paper.is_terminal:
        with Live(console=paper, auto_refresh=False) as live:
            async for look in following.looks():
                live.update(bars_view(look), refresh=True)
        return
    said = time.monotonic()
    async for look in following.looks():
        if look.finished or time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            paper.print(headline(look), soft_wrap=True)
