"""The catalogue: every metric family, declared once, as data.

The exporters read their figures through it, and the reference page is generated from it. A new
family is one entry in the module of its subject and, where it reads something new, one reader
above it.
"""

from taskmeter.catalogue.activities import ACTIVITIES
from taskmeter.catalogue.attempts import ATTEMPTS
from taskmeter.catalogue.capacity import CAPACITY
from taskmeter.catalogue.family import (
    PREFIX,
    SCOPES,
    SQUARES,
    Build,
    Family,
    Figures,
    Grid,
    Kind,
    Observed,
    Row,
    Scope,
)
from taskmeter.catalogue.forecasts import FORECASTS
from taskmeter.catalogue.histograms import HISTOGRAMS
from taskmeter.catalogue.itself import ITSELF
from taskmeter.catalogue.workers import WORKERS

#: Every family, in the order of exposition. Errors come last, so that they can tell of the others.
FAMILIES: tuple[Family, ...] = (
    *ATTEMPTS, *CAPACITY, *WORKERS, *ACTIVITIES, *FORECASTS, *HISTOGRAMS, *ITSELF,
)  # fmt: skip

__all__ = [
    "FAMILIES",
    "PREFIX",
    "SCOPES",
    "SQUARES",
    "Build",
    "Family",
    "Figures",
    "Grid",
    "Kind",
    "Observed",
    "Row",
    "Scope",
]
