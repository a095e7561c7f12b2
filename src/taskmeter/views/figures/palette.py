"""Colours that people with any colour vision tell apart, on a light and on a dark page.

They are Okabe and Ito's (Color Universal Design, 2008), without black, and with the yellow last
because it is faint on white.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
SKY: Final = "#56B4E9"
VERMILLION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
YELLOW: Final = "#F0E442"
GREY: Final = "#8C8C8C"

#: For things of a kind, in this order; what is beyond is grey.
SERIES: Final = (BLUE, ORANGE, GREEN, SKY, VERMILLION, PURPLE, YELLOW)


class Colours:
    """Who has which colour: a name keeps its own for as long as it is shown.

    Parameters
    ----------
    of
        The colours there are.
    """

    def __init__(self, of: Sequence[str] = SERIES) -> None:
        self._of = of
        #: {name: colour}
        self._held: dict[str, str] = {}

    def assign(self, names: Sequence[str]) -> list[str]:
        """Return a colour for each name; those who were here before keep theirs."""
        self._held = {name: self._held[name] for name in names if name in self._held}
        free = [colour for colour in self._of if colour not in self._held.values()]
        for name in names:
            if name not in self._held and free:
                self._held[name] = free.pop(0)
        return [self._held.get(name, GREY) for name in names]
