"""The reference page of the metrics, generated from the catalogue.

Written by ``python -m taskmeter.exporters.reference > docs/metrics.md``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from taskmeter.catalogue import FAMILIES, SCOPES, Scope
from taskmeter.config import Settings
from taskmeter.core.attempts import OTHER

_INTRODUCTION = """\
# Metrics

<!-- Generated: python -m taskmeter.exporters.reference > docs/metrics.md -->

Every server with taskmeter serves its figures at `/taskmeter/metrics`, on the port of its
dashboard, as Prometheus text 0.0.4 or OpenMetrics 1.0, whichever the scraper asks for. When a
process holds one Dask server only, which is how clusters are usually deployed, they are in Dask's
own `/metrics` too, so a scrape job that is already there needs no change.

Names start with Dask's setting `distributed.dashboard.prometheus.namespace`, `{namespace}` by
default. The first {cap} prefixes of a server (setting `taskmeter.max-prefixes`) have series of
their own; later ones share `task_prefix_name="{other}"`, so that sums over the label stay exact.

Some questions, and the query that answers each:

"""

#: Question and PromQL, where names stand in angle brackets, without namespace.
_QUESTIONS = (
    (
        "Which kinds of task keep how many threads busy?",
        "rate(<compute_seconds_total>[1m])",
    ),
    (
        "How busy is the cluster?",
        "sum(rate(<compute_seconds_total>[1m])) / sum(rate(<thread_seconds_total>[1m]))",
    ),
    (
        "How many threads do wasted attempts take, and why are they wasted?",
        'sum by (outcome) (rate(<attempt_seconds_total>{outcome!="ok"}[5m]))',
    ),
    (
        "How long does a good attempt take?",
        (
            'rate(<attempt_seconds_total>{outcome="ok"}[5m]) '
            '/ rate(<attempts_total>{outcome="ok"}[5m])'
        ),
    ),
    (
        "Which kinds of task have one that has been running for an hour?",
        "time() - <oldest_attempt_start_time_seconds> > 3600",
    ),
)

_TITLES: Mapping[Scope, str] = {
    "scheduler": "## On the scheduler: the whole cluster\n\n",
    "worker": (
        "## On each worker: that worker alone\n\n"
        "These are exact to the instant of the scrape. The scheduler's figures already hold "
        "them,\nso a sum of both counts everything twice.\n\n"
    ),
}


def page() -> str:
    """Give the whole page: each family of each scope with its kind, labels and meaning."""
    default = Settings()
    introduction = _INTRODUCTION.format(
        namespace=default.namespace, cap=default.max_prefixes, other=OTHER
    )
    tables = (_TITLES[scope] + families(scope, default.namespace) for scope in SCOPES)
    return "\n".join((introduction + _questions(default.namespace), *tables))


def families(scope: Scope, namespace: str) -> str:
    """Give the families of one scope as a Markdown table."""
    rows = (
        (
            f"`{family.full_name(scope, namespace)}{family.suffix}`",
            family.kind,
            ", ".join(f"`{label}`" for label in family.labels),
            family.help_in(scope).replace("__", r"\_\_"),  # Markdown would make it bold
        )
        for family in FAMILIES
    )
    return _table(("metric", "kind", "labels", "what it says"), *rows)


def _questions(namespace: str) -> str:
    full = rf"{namespace}_taskmeter_\1"
    rows = ((question, f"`{re.sub('<(.*?)>', full, query)}`") for question, query in _QUESTIONS)
    return _table(("question", "PromQL"), *rows)


def _table(*rows: tuple[str, ...]) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n" for cells in lines
    )


if __name__ == "__main__":
    sys.stdout.write(page())
