"""What all pictures have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from taskmeter.views.figures.view import View


class Panel(Protocol):
    """A picture that is drawn once and then gets new numbers.

    Work and drawing are apart, so that the work can be done elsewhere than where the page lives.
    """

    #: What it is called, in the page and as the end of its address.
    name: str
    title: str
    #: One sentence: how to read it.
    caption: str
    #: What goes into a page.
    root: Any
    #: It gets new numbers every so many seconds.
    every: int
    #: All its Bokeh figures, shown or not.
    plots: list[Any]
    #: What the reader can choose; a change of a ``value`` calls for new numbers.
    controls: list[Any]

    def job(self, view: View) -> Callable[[], Any]:
        """Return the work for the current choice: a function that touches no part of the figure."""

    def show(self, found: Any) -> None:
        """Draw what that function gave."""
