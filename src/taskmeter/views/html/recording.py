"""The report of a recording."""

from __future__ import annotations

from taskmeter.history.moment import extended
from taskmeter.history.recording import Recording
from taskmeter.views.html.facts import Facts
from taskmeter.views.html.page import page

#: What a report says of a recording that was cut off.
CUT_OFF = (
    "This recording has no end: its writer was killed, or writes still. Its last seconds may be "
    "missing."
)


def page_of(recording: Recording) -> str:
    """Return the report of a recording as HTML."""
    told = recording.facts
    facts = Facts(
        title=str(told.get("title", recording.path.name)),
        source=str(told.get("source", "")),
        versions={str(name): str(version) for name, version in told.get("versions", {}).items()},
        note="" if told.get("complete") else CUT_OFF,
    )
    return page(recording.snapshot, facts=facts, moments=extended((), recording.moments))
