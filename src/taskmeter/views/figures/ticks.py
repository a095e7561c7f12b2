"""Where the ticks of an axis of durations stand: at times that people say.

The data lies between the ticks whatever its range: a logarithmic axis takes the finest ladder of
which no more ticks are on it than there is room for.
"""

from __future__ import annotations

import math
from typing import Final

#: From nanoseconds to tenths of seconds; divided by, because they are exact.
_FRACTIONS: Final = tuple(10.0**k for k in range(9, 0, -1))


def _ladder(
    parts: tuple[float, ...], minutes: tuple[float, ...], hours: tuple[float, ...]
) -> tuple[float, ...]:
    """Return the rungs below a minute, of minutes (and seconds), of hours, and of days."""
    return (
        *(part / fraction for fraction in _FRACTIONS for part in parts),
        *(second for second in minutes),
        *(60.0 * minute for minute in minutes),
        *(3600.0 * hour for hour in hours),
        *(86_400.0 * part * 10.0**decade for decade in range(6) for part in parts),
    )


#: Rungs of logarithmic axes, in seconds, from the finest ladder to the coarsest.
LADDERS: Final = (
    _ladder((1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20, 30, 45),
            (1, 1.5, 2, 3, 4, 6, 8, 12, 16)),
    _ladder((1, 2, 3, 5), (1, 2, 3, 5, 10, 15, 30), (1, 2, 3, 6, 12)),
    _ladder((1, 2, 5), (1, 2, 5, 10, 30), (1, 3, 10)),
    _ladder((1, 3), (1, 3, 10, 30), (1, 3, 10)),
    _ladder((1,), (1, 10), (1, 10)),
    (1e-9, 1e-6, 1e-3, 1.0, 60.0, 3600.0, 86_400.0, 8_640_000.0),
)  # fmt: skip

#: Steps between the ticks of linear axes, in seconds.
STEPS: Final = (
    *(part / fraction for fraction in _FRACTIONS for part in (1, 2, 5)),
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200,
    *(86_400.0 * part * 10.0**decade for decade in range(6) for part in (1, 2, 5)),
)  # fmt: skip


def duration_ticks(low: float, high: float, *, logarithmic: bool, most: int) -> list[float]:
    """Return the ticks between two durations, all of them within; at most about `most`."""
    if logarithmic:
        for ladder in LADDERS:
            ticks = [tick for tick in ladder if low <= tick <= high]
            if len(ticks) <= most:
                break
        else:
            ticks = ticks[:: math.ceil(len(ticks) / most)]
        if len(ticks) > 1:
            return ticks
    step = next((s for s in STEPS if (high - low) / s <= most), (high - low) / most)
    first = math.ceil(low / step)
    ticks = [(first + k) * step for k in range(most + 2)]
    return [tick for tick in ticks if low <= tick <= high]
