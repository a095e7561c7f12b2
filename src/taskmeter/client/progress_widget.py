"""The progress bars of `taskmeter.progress` as a notebook widget.

It needs ipywidgets: ``pip install 'taskmeter[notebook]'``.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator
from typing import Any

from IPython.display import display
from ipywidgets import HTML, FloatProgress, HBox, VBox

from taskmeter.client.following import Following
from taskmeter.snapshots.progress import Bar
from taskmeter.views.tables.bars import Look, counted, each, headline, shown_bars


class ProgressWidget:
    """Shows the progress of some work from the moment it is displayed.

    Parameters
    ----------
    following
        The work.
    """

    def __init__(self, following: Following) -> None:
        self._following = following
        self._headline = HTML("")
        #: {prefix: (text, bar, label, the row of the three)}
        self._rows: dict[str, tuple[Any, Any, Any, Any]] = {}
        self.widget = VBox([self._headline])
        self._task: asyncio.Task[None] | None = None

    def _ipython_display_(self, **kwargs: Any) -> None:
        self._task = asyncio.ensure_future(self.follow())
        display(self.widget, **kwargs)

    async def follow(self) -> None:
        """Draw until the work is over; it runs on the notebook's loop, not the client's."""
        loop = self._following.client.loop.asyncio_loop
        looks = self._following.looks()
        while True:
            step = asyncio.run_coroutine_threadsafe(_next(looks), loop)
            try:
                look = await asyncio.wrap_future(step)
            except Exception as error:  # noqa: BLE001 (nobody awaits this; it is shown)
                self._headline.value = html.escape(str(error))
                return
            if look is None:
                return
            self.draw(look)

    def draw(self, look: Look) -> None:
        """Draw the progress."""
        self._headline.value = html.escape(headline(look))
        rows = (self._headline, *(self._row(bar, look) for bar in shown_bars(look.bars)))
        if self.widget.children != rows:
            self.widget.children = rows

    def _row(self, bar: Bar, look: Look) -> Any:
        if bar.prefix not in self._rows:
            parts = HTML(""), FloatProgress(min=0, max=1), HTML("")
            self._rows[bar.prefix] = (*parts, HBox(parts))
        text, drawn, label, row = self._rows[bar.prefix]
        text.value = counted(bar)
        drawn.value = bar.done / bar.total if bar.total else 1.0
        if bar.done >= bar.total:
            drawn.bar_style = "success"
        elif look.failure:
            drawn.bar_style = "danger"
        label.value = html.escape(f"{bar.prefix} {each(bar)}".rstrip())
        return row


async def _next(looks: AsyncIterator[Look]) -> Look | None:
    return await anext(looks, None)
