"""The names of prefixes, by the rules that a user has in the settings."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from time import monotonic

from taskmeter.cluster.prefix_names import PrefixNames
from taskmeter.config import Settings


def prefix_names(settings: Settings, errors: dict[str, int]) -> PrefixNames:
    """Return what gives the name that a prefix of Dask's counts under.

    Raises
    ------
    ValueError
        If a rule is none; the message names the setting.
    """
    return PrefixNames(
        settings.prefix_patterns,
        _function(settings.prefix_function),
        errors=errors,
        clock=monotonic,
    )


def _function(path: str) -> Callable[[str], object] | None:
    if not path:
        return None
    module, _, name = path.rpartition(".")
    try:
        function: Callable[[str], object] = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"The setting taskmeter.prefix-function cannot be {path!r}: {error}."
        ) from error
    return function
