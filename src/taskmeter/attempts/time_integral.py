"""Time integrals of numbers that change in steps."""

from __future__ import annotations

from collections.abc import Mapping


class Integral:
    """How long how many of something were in each of some states, exact between its changes.

    Parameters
    ----------
    at
        The beginning, on the caller's clock.
    levels
        ``{state: how many}`` at the beginning.
    """

    def __init__(self, at: float, levels: Mapping[str, float] | None = None) -> None:
        self._at = at
        self._levels = dict(levels or {})
        #: {state: seconds}
        self._totals: dict[str, float] = dict.fromkeys(self._levels, 0.0)

    @property
    def levels(self) -> Mapping[str, float]:
        """``{state: how many}`` now."""
        return self._levels

    def change(self, levels: Mapping[str, float], at: float) -> None:
        """Note how many there are in each state from now on; a state that is left out has none.

        An instant before the last one is taken for the last one.
        """
        passed = at - self._at
        if passed > 0:
            totals = self._totals
            for state, level in self._levels.items():
                if level:
                    totals[state] = totals.get(state, 0.0) + level * passed
            self._at = at
        self._levels = dict(levels)

    def totals(self, now: float) -> dict[str, float]:
        """Return ``{state: seconds}`` up to `now`."""
        passed = max(0.0, now - self._at)
        found = dict(self._totals)
        for state, level in self._levels.items():
            found[state] = found.get(state, 0.0) + level * passed
        return found
