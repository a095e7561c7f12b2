"""What somebody says in advance of how long attempts of a prefix take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from taskmeter.config import seconds
from taskmeter.distributions.grid import Floats

#: A hint without a spread is right within this factor two times in three.
SPREAD: Final = 2.0
#: It counts as this many completions ...
COUNTS: Final = 3
#: ... the less the more there are, and from so many on not at all.
OVERRULED: Final = 5
#: A shorter one says that a task takes next to nothing, as Dask's own defaults do.
SHORTEST: Final = 1e-3
#: the middles of eight equally probable parts of a normal distribution
_MIDDLES: Final = np.array([NormalDist().inv_cdf((part + 0.5) / 8) for part in range(8)])
_P99: Final = NormalDist().inv_cdf(0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A log-normal law of durations.

    Parameters
    ----------
    typical
        Its median, in seconds.
    spread
        The factor within which of that two thirds of attempts are; more than 1.
    """

    typical: float
    spread: float = SPREAD

    @classmethod
    def of(cls, value: Any, spread: float = SPREAD) -> Hint:
        """Return the hint that a setting or an annotation means.

        Parameters
        ----------
        value
            Seconds, "20 min", or a mapping with ``typical``, one of these, and perhaps ``spread``.
        spread
            Where the value does not say.

        Raises
        ------
        ValueError
            If it cannot be used.
        """
        options = dict(value) if isinstance(value, Mapping) else {"typical": value}
        typical, factor = options.pop("typical", None), options.pop("spread", spread)
        try:
            hint = cls(typical=seconds(typical), spread=float(factor))
        except (TypeError, ValueError):
            hint = None
        if options or hint is None or not 1 < hint.spread <= 1e3:
            raise ValueError(
                f'A duration cannot be {value!r}; it takes seconds, such as 1200 or "20 min", or '
                '{typical: "20 min", spread: 2}, with a spread of more than 1.'
            )
        return hint

    @property
    def p99(self) -> float:
        """The seconds that 99 % of attempts do not exceed."""
        return self.typical * exp(_P99 * log(self.spread))

    def durations(self) -> Floats:
        """Return eight durations that stand for the law."""
        durations: Floats = self.typical * np.exp(_MIDDLES * log(self.spread))
        return durations
