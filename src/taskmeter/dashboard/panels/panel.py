"""What all pictures have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from bokeh.models import ColumnDataSource, Div, InlineStyleSheet

from taskmeter.dashboard.panels.style import note, say
from taskmeter.views.figures.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New numbers for a picture.

    Parameters
    ----------
    columns
        ``{source: its columns}``.
    note
        The line below the picture.
    extra
        What else the picture needs to draw itself.
    """

    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = ""
    extra: Any = None


class Panel:
    """A picture that is drawn once and then gets new numbers.

    Work and drawing are apart, so that the work can be done elsewhere than where the page lives: a
    panel's `job` runs in a thread, and touches no part of the figure.
    """

    #: What it is called, in the page and as the end of its address.
    name: ClassVar[str]
    title: ClassVar[str]
    #: One sentence: how to read it.
    caption: ClassVar[str]
    #: It gets new numbers every so many seconds.
    every: ClassVar[int] = 1
    #: What goes into a page.
    root: Any
    #: ``work(view, *choices, **state)`` returns an `Update`; it runs in a thread.
    work: Callable[..., Update]

    def __init__(self) -> None:
        #: All its Bokeh figures, shown or not.
        self.plots: Sequence[Any] = []
        #: What the reader can choose; a change of a ``value`` calls for new numbers.
        self.controls: Sequence[Any] = []
        self._sources: dict[str, ColumnDataSource] = {}
        self._note = note("", margin=(0, 4, 0, 4))

    def source(self, name: str, *columns: str) -> ColumnDataSource:
        """Return a new source of this name, with empty columns."""
        self._sources[name] = ColumnDataSource({column: [] for column in columns}, name=name)
        return self._sources[name]

    def state(self) -> dict[str, Any]:
        """Return what `work` must know of the picture as it is now."""
        return {}

    def dress(self, update: Update) -> None:
        """Change what is not a column of a source, before the columns change."""

    def job(self, view: View) -> Callable[[], Update]:
        """Return the work for the current choice."""
        return partial(self.work, view, *(c.value for c in self.controls), **self.state())

    def show(self, update: Update) -> None:
        """Draw what the work gave."""
        self.dress(update)
        for name, columns in update.columns.items():
            self._sources[name].data = dict(columns)
        say(self._note, update.note)


class HtmlPanel(Panel):
    """A panel that is a piece of HTML, in which every text is escaped."""

    def __init__(self, style: str, **options: Any) -> None:
        super().__init__()
        self._html = Div(
            text="", disable_math=True, sizing_mode="stretch_width",
            stylesheets=[InlineStyleSheet(css=style)], **options,
        )  # fmt: skip
        self.root: Any = self._html

    def dress(self, update: Update) -> None:
        """Show the HTML if it is another."""
        if self._html.text != update.extra:
            self._html.text = update.extra
