"""Colours: Dask's own for prefixes, and some that any colour vision tells apart for the rest.

The latter are Okabe and Ito's (Color Universal Design, 2008), without black.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5
from typing import Final

from taskmeter.attempts import idle_reasons
from taskmeter.catalogue.words import COMPUTE, WASTE
from taskmeter.views.figures.top import REST

BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
GREEN: Final = "#009E73"
SKY: Final = "#56B4E9"
VERMILLION: Final = "#D55E00"
PURPLE: Final = "#CC79A7"
YELLOW: Final = "#F0E442"
GREY: Final = "#8C8C8C"

#: ``{group of parts of the capacity: colour}``
GROUPS: Final[Mapping[str, str]] = {"compute": BLUE, "waste": VERMILLION, "idle": SKY}

#: ``{kind of part of the capacity: colour}``
CAPACITY: Final[Mapping[str, str]] = {
    **dict.fromkeys(COMPUTE, BLUE),
    **dict.fromkeys(WASTE, VERMILLION),
    idle_reasons.TRANSFER: ORANGE,
    idle_reasons.OVERHEAD: GREEN,
    idle_reasons.SCHEDULER: SKY,
    idle_reasons.RESOURCES: PURPLE,
    idle_reasons.PAUSED: YELLOW,
    idle_reasons.NO_TASK: "#C8C8C8",
    idle_reasons.UNKNOWN: GREY,
}

#: The colours of Dask's task stream: 18 of Viridis.
_VIRIDIS: Final = (
    "#440154", "#471669", "#472A79", "#433C84", "#3C4D8A", "#355D8C", "#2E6C8E", "#287A8E",
    "#23898D", "#1E978A", "#20A585", "#2EB27C", "#45BF6F", "#64CB5D", "#88D547", "#AFDC2E",
    "#D7E219", "#FDE724",
)  # fmt: skip


def prefix_colour(prefix: str) -> str:
    """Return the colour of a prefix, which is that of its tasks in Dask's task stream.

    It depends on the name alone: Dask takes the first 32 bits of its MD5, modulo the number of
    colours.
    """
    if prefix == REST:
        return GREY
    digest = md5(prefix.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
    return _VIRIDIS[int(digest[:8], 16) % len(_VIRIDIS)]
