"""Settings that have no effect, on the scheduler and here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from taskmeter.cli.checks.finding import WARN, Finding
from taskmeter.config import Settings, unknown_settings


def settings(announced: Mapping[str, Any] | None) -> Iterable[Finding]:
    """Yield a finding for every setting that does not exist or cannot be used.

    Parameters
    ----------
    announced
        What taskmeter says of itself in the scheduler's metadata; None if it says nothing.
    """
    there = tuple((announced or {}).get("unknown_settings", ()))
    for sentence in there:
        yield Finding(status=WARN, what="settings of the scheduler", says=sentence.rstrip("."))
    for sentence in _wrong_here():
        # a scheduler on this machine shares its configuration
        if sentence not in there:
            yield Finding(status=WARN, what="settings here", says=sentence.rstrip("."))


def _wrong_here() -> Iterable[str]:
    yield from unknown_settings()
    try:
        Settings.from_dask()
    except ValueError as error:
        yield str(error)
