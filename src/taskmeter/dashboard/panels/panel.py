"""What all panels have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from bokeh.layouts import column
from bokeh.models import ColumnDataSource, CustomJS, Div, InlineStyleSheet

from taskmeter.dashboard.panels.style import note, say
from taskmeter.views.figures.selection import Selection, chosen
from taskmeter.views.figures.view import View

#: Shrinks the frame of a panel that has nothing to show but a sentence.
_QUIET = """
document.getElementById("tm-" + name)?.classList.toggle("tm-quiet", !body.visible)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New numbers for a panel.

    Parameters
    ----------
    columns
        ``{source: its columns}``.
    note
        The line below the picture.
    empty
        There is nothing to draw: the note stands alone.
    extra
        What else the panel needs to draw itself.
    """

    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: str = ""
    empty: bool = False
    extra: Any = None


class Panel:
    """A part of a page that is drawn once and then gets new numbers.

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
    #: It shows what is chosen of these, such as ``prefix``, among the others, and not alone.
    highlights: ClassVar[frozenset[str]] = frozenset()
    #: What goes into a page.
    root: Any
    #: ``work(view, *choices, **state)`` returns an `Update`; it runs in a thread.
    work: Callable[..., Update]

    def __init__(self) -> None:
        #: All its Bokeh figures, shown or not.
        self.plots: Sequence[Any] = []
        #: What the reader can choose of this panel alone; a change of a ``value`` calls for new
        #: numbers.
        self.controls: Sequence[Any] = []
        #: What the page does when something is chosen here.
        self.on_choice: Callable[[Selection], None] = lambda _: None
        self.selection = Selection()
        self._sources: dict[str, ColumnDataSource] = {}
        self._note = note("", margin=(0, 4, 0, 4))
        self._body: Any = None
        self._showing = False

    def source(self, name: str, *columns: str) -> ColumnDataSource:
        """Return a new source of this name, with empty columns."""
        self._sources[name] = ColumnDataSource({column: [] for column in columns}, name=name)
        return self._sources[name]

    def lay_out(self, *parts: Any, controls: Any = None, mode: str = "stretch_both") -> None:
        """Put controls above, the picture, and the note below it; without data only the note."""
        self._body = column(*parts, sizing_mode=mode)
        self._body.js_on_change(
            "visible", CustomJS(args={"body": self._body, "name": self.name}, code=_QUIET)
        )
        above = [] if controls is None else [controls]
        self.root = column(*above, self._body, self._note, sizing_mode=mode, name=self.name)

    def choose(self, **change: Any) -> None:
        """Choose something, such as ``prefix="sum"``, in all panels of the page."""
        if not self._showing:
            self.on_choice(replace(self.selection, **change))

    def state(self) -> dict[str, Any]:
        """Return what `work` must know of the panel as it is now."""
        return {}

    def dress(self, update: Update) -> None:
        """Change what is not a column of a source, before the columns change."""

    def job(self, view: View, selection: Selection) -> Callable[[], Update]:
        """Return the work for the current choices."""
        self.selection = selection
        alone = replace(selection, **dict.fromkeys(self.highlights))
        choices = [control.value for control in self.controls]
        return partial(self._work_on, view, alone, choices, self.state())

    def _work_on(
        self, view: View, selection: Selection, choices: Sequence[Any], state: Mapping[str, Any]
    ) -> Update:
        return self.work(chosen(view, selection), *choices, **state)

    def show(self, update: Update) -> None:
        """Draw what the work gave."""
        self._showing = True
        try:
            if self._body is not None and self._body.visible is update.empty:
                self._body.visible = not update.empty
            self.dress(update)
            for name, columns in update.columns.items():
                self._sources[name].data = dict(columns)
            say(self._note, update.note)
        finally:
            self._showing = False


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
