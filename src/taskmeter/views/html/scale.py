"""Axes: where a value is drawn, and where the ticks are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from taskmeter.text import duration
from taskmeter.views.figures.ticks import duration_ticks

#: No axis goes beyond these; nothing takes as short or as long.
_LEAST, _MOST = 1e-250, 1e250


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """An axis.

    Parameters
    ----------
    low, high
        The values at its two ends.
    start, stop
        Where these are, in the units of the drawing.
    logarithmic
        Equal ratios have equal lengths.
    """

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Return where a value is drawn; one beyond an end, at that end."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            # a ratio may be greater than all floats
            below = math.log(self.low)
            share = (math.log(value) - below) / (math.log(self.high) - below)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def holds(self, value: float) -> bool:
        """Return whether a value is on the axis."""
        return self.low <= value <= self.high


def time_scale(values: Iterable[float], start: float, stop: float, *, logarithmic: bool) -> Scale:
    """Return the axis on which durations are drawn.

    Parameters
    ----------
    values
        What must find room on it; zeros do only on a linear one.
    start, stop
        Where its ends are.
    logarithmic
        It has to be logarithmic.
    """
    known = [value for value in values if 0 <= value <= _MOST]
    positive = [value for value in known if value > _LEAST]
    if not positive:
        return Scale(low=0.0, high=1.0, start=start, stop=stop)
    low, high = min(positive), max(positive)
    if logarithmic:
        room = max(1.05, math.exp(0.03 * (math.log(high) - math.log(low))))
        return Scale(low=low / room, high=high * room, start=start, stop=stop, logarithmic=True)
    return Scale(low=0.0, high=high * 1.05, start=start, stop=stop)


def time_ticks(scale: Scale, most: int = 8) -> list[tuple[float, str]]:
    """Return ``(value, label)`` of the ticks of an axis of durations."""
    ticks = duration_ticks(scale.low, scale.high, logarithmic=scale.logarithmic, most=most)
    return [(value, time_label(value)) for value in ticks]


def ticks(scale: Scale, most: int = 6) -> list[tuple[float, str]]:
    """Return ``(value, label)`` of the ticks of a linear axis of numbers."""
    return [(v, f"{v:,.6g}") for v in _multiples(scale, _step(scale.high / most))]


def time_label(seconds: float) -> str:
    """Return a duration as a tick has it: whole days, hours and minutes are written as such."""
    for unit, length in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= length and not seconds % length:
            return f"{seconds / length:,.0f} {unit}"
    return "0" if not seconds else duration(seconds).replace(".0 ", " ")


def _multiples(scale: Scale, step: float) -> list[float]:
    last = math.floor(scale.high / step * (1 + 1e-9))
    # 7 * 0.05 is a bit more than 0.35: rounding must not push the last tick off the axis
    return [min(k * step, scale.high) for k in range(last + 1)]


def _step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ... that is not below a number."""
    decade = 10.0 ** math.floor(math.log10(least))
    return next(k * decade for k in (1, 2, 5, 10) if k * decade >= least * (1 - 1e-9))
