"""The names that prefixes count under: Dask's own, or what a user's rules make of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from taskmeter.attempts.names import bounded
from taskmeter.errors import count_error

#: So many names are remembered; then they are found anew.
_REMEMBERED: Final = 100_000
#: A rule that takes longer is used no more: it holds the scheduler's event loop.
_SLOW_SECONDS: Final = 0.05


class PrefixNames:
    r"""Renames Dask's prefixes, each once.

    Keys with a random part in them (a UUID, the name of a flow run) may have a prefix each, of
    which nothing can be learned. What a rule makes of them counts as one prefix everywhere. A rule
    that raises leaves a prefix as it is, and one that is slow is used no more; both are counted.

    Parameters
    ----------
    patterns
        ``{regular expression: name}``. The first that matches a whole prefix replaces it; the name
        may refer to groups, as ``\1``.
    function
        What is called with a prefix that no pattern matches, and returns its name.
    errors
        ``{where: times}``, which errors are counted in.
    clock
        Gives seconds.
    """

    def __init__(
        self,
        patterns: Mapping[str, str],
        function: Callable[[str], object] | None,
        *,
        errors: dict[str, int],
        clock: Callable[[], float],
    ) -> None:
        self._patterns = [(_compiled(pattern), name) for pattern, name in patterns.items()]
        self._function = function
        self._errors = errors
        self._clock = clock
        self._names: dict[str, str] = {}

    @property
    def active(self) -> bool:
        """Whether there is a rule at all."""
        return bool(self._patterns) or self._function is not None

    def __call__(self, prefix: str) -> str:
        """Return the name that a prefix counts under, of at most 200 characters."""
        name = self._names.get(prefix)
        if name is None:
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            name = self._names[prefix] = bounded(self._named(prefix))
        return name

    def _named(self, prefix: str) -> str:
        if not self.active:
            return prefix
        begin = self._clock()
        try:
            return self._by_rule(prefix)
        except Exception:  # noqa: BLE001 (of somebody else's rule)
            count_error(self._errors, "prefix rule")
            return prefix
        finally:
            if self._clock() - begin > _SLOW_SECONDS:
                self._errors["slow prefix rule"] = 1
                self._patterns, self._function = [], None

    def _by_rule(self, prefix: str) -> str:
        name: object = prefix
        for pattern, template in self._patterns:
            match = pattern.fullmatch(prefix)
            if match is not None:
                name = match.expand(template)
                break
        else:
            if self._function is not None:
                name = self._function(prefix)
        if not isinstance(name, str) or not name:
            raise TypeError(f"A rule names the prefix {prefix!r} {name!r}.")
        return name


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(
            f"The setting taskmeter.prefix-patterns has {pattern!r}, which is no regular "
            f"expression: {error}."
        ) from None
