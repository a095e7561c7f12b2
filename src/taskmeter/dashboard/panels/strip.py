"""The strip on top of the page, and what is chosen on the whole page."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bokeh.layouts import column, row
from bokeh.models import Button, CustomJS, InlineStyleSheet

from taskmeter.dashboard.panels.panel import HtmlPanel, Update
from taskmeter.dashboard.panels.style import CONTROLS, offer, select
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import duration
from taskmeter.views.figures.label import label
from taskmeter.views.figures.selection import Selection, spans
from taskmeter.views.figures.top import top
from taskmeter.views.figures.view import View
from taskmeter.views.strip import Notice, strip
from taskmeter.views.tables.running import worker_names

#: Prefixes, workers and spans to choose from, those that took most time.
_MOST_CHOICES: Final = 300

#: Lengths of time to choose from, in seconds.
_LENGTHS: Final = (60, 600, 3600, 21_600, 86_400)

ALL: Final = "all"
_CHOSEN: Final = "as chosen"

_STYLE: Final = """
:host { color: inherit; }
.bk-clearfix { width: 100%; }
.strip { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 8px; }
a { display: block; border-left: 4px solid #9996; border-radius: 3px; padding: 1px 8px 3px;
  color: inherit; text-decoration: none; min-width: 0; background: #9991; }
a:hover { background: #9993; }
span { font-size: 11px; opacity: 0.75; }
b { display: block; font-size: 18px; font-weight: 600; font-variant-numeric: tabular-nums; }
small { display: block; font-size: 12px; line-height: 1.3; overflow-wrap: anywhere; }
.good { border-color: #009E73; } .warning { border-color: #E69F00; background: #E69F0022; }
.bad { border-color: #D55E00; background: #D55E0022; }
p { font-size: 14px; margin: 10px 2px 2px; }
"""

#: Follows a notice to its panel; hides the other panels while there is nothing to show on them.
_GUIDE: Final = """
document.body.classList.toggle("tm-nothing", strip.tags.includes("nothing"))
"""

_NOTHING: Final = (
    "No task has run on this cluster since taskmeter was installed. The panels come up as soon as "
    "one starts."
)


def strip_html(notices: Sequence[Notice], *, nothing: bool) -> str:
    """Return the strip as HTML in which every text is escaped."""
    cells = "".join(
        f'<a class="{notice.level}" href="#tm-{notice.panel}"><span>{html.escape(notice.title)}'
        f"</span><b>{html.escape(notice.figure)}</b><small>{html.escape(notice.says)}</small></a>"
        for notice in notices
    )
    more = f"<p>{html.escape(_NOTHING)}</p>" if nothing else ""
    return f'<div class="strip">{cells}</div>{more}'


class StripPanel(HtmlPanel):
    """What is wrong, and what is chosen."""

    name = "strip"
    title = ""
    caption = ""
    highlights = frozenset({"prefix", "worker", "span", "window"})

    def __init__(self) -> None:
        super().__init__(_STYLE)
        self._prefix = select("prefix", [ALL], ALL, width=210)
        self._worker = select("worker", [ALL], ALL, width=150)
        self._span = select("span", [ALL], ALL, width=150)
        self._window = select("time", [ALL], ALL, width=120)
        #: {what a control offers: what that stands for}
        self._meanings: dict[str, Mapping[str, Any]] = {}
        self._at = 0.0
        for what, control in self._controls().items():
            control.on_change("value", self._choice(what))
        everything = Button(
            label="show all", width=80, height=26, margin=(18, 6, 0, 2), name="show all",
            stylesheets=[InlineStyleSheet(css=CONTROLS)],
        )  # fmt: skip
        everything.on_click(lambda: self.on_choice(Selection()))
        self._html.js_on_change("tags", CustomJS(args={"strip": self._html}, code=_GUIDE))
        self.root = column(
            self._html,
            row(*self._controls().values(), everything, styles={"flex-wrap": "wrap"}),
            sizing_mode="stretch_width",
            name=self.name,
        )

    def _controls(self) -> dict[str, Any]:
        return {
            "prefix": self._prefix, "worker": self._worker, "span": self._span,
            "window": self._window,
        }  # fmt: skip

    def _choice(self, what: str) -> Callable[[str, str, str], None]:
        def chosen(attr: str, old: str, new: str) -> None:  # noqa: ARG001 (Bokeh's signature)
            if what == "window":
                length = self._meanings.get("window", {}).get(new)
                self.choose(window=None if length is None else (self._at - length, self._at))
            else:
                self.choose(**{what: self._meanings.get(what, {}).get(new)})

        return chosen

    def state(self) -> dict[str, Any]:
        """Return what is chosen."""
        return {"selection": self.selection}

    def work(self, view: View, *, selection: Selection) -> Update:
        """Return the strip as HTML, and what can be chosen."""
        snapshot = view.snapshot
        last = view.moments[-1] if view.moments else None
        notices = strip(snapshot, None if last is None else last.busy_seconds / last.seconds)
        nothing = not snapshot.prefixes
        return Update(
            extra=(
                strip_html(notices, nothing=nothing),
                nothing,
                choices(snapshot, selection),
                selection,
                snapshot.at,
            )
        )

    def dress(self, update: Update) -> None:
        """Show the strip, and let the controls offer what there is."""
        text, nothing, self._meanings, selection, self._at = update.extra
        super().dress(replace(update, extra=text))
        tags = ["nothing"] if nothing else []
        if self._html.tags != tags:
            self._html.tags = tags
        for what, control in self._controls().items():
            meanings = self._meanings[what]
            offer(control, list(meanings))
            chosen = getattr(selection, what)
            name = next((n for n, meaning in meanings.items() if meaning == chosen), ALL)
            if what == "window" and chosen is not None:
                # the control shows how long it is, or that it is another
                length = round(chosen[1] - chosen[0])
                name = next((n for n, meaning in meanings.items() if meaning == length), _CHOSEN)
            if control.value != name:
                control.value = name


def choices(snapshot: Snapshot, selection: Selection) -> dict[str, dict[str, Any]]:
    """Return ``{what can be chosen: {what a control calls it: its value}}``."""
    costs = {name: stats.compute_seconds for name, stats in snapshot.prefixes.items()}
    prefixes = {*top(costs, _MOST_CHOICES).kept}
    if selection.prefix is not None:
        prefixes.add(selection.prefix)
    names = worker_names(snapshot)
    workers = dict.fromkeys(list(names)[:_MOST_CHOICES])
    if selection.worker is not None:
        workers[selection.worker] = None
    named = [(" > ".join(span), span) for span in spans(snapshot)[:_MOST_CHOICES]]
    lengths = {f"last {duration(s).replace('.0', '')}": s for s in _LENGTHS}
    length = selection.window and round(selection.window[1] - selection.window[0])
    if length is not None and length not in lengths.values():
        lengths[_CHOSEN] = length
    return {
        "prefix": {ALL: None, **{label(name, 40): name for name in sorted(prefixes)}},
        "worker": {ALL: None, **{label(names.get(w, w), 40): w for w in workers}},
        "span": {ALL: None, **{label(name, 40): span for name, span in named}},
        "window": {ALL: None, **lengths},
    }
