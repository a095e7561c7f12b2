"""The PromQL of the dashboards that are in the package, with Grafana's variables filled in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser

import taskmeter
from taskmeter.catalogue import FAMILIES, SCOPES

FOLDER = Path(taskmeter.__file__).parent / "grafana"
DASHBOARDS = sorted((FOLDER / "dashboards").glob("*.json"))

#: What Grafana would put for its variables, where everything is chosen.
VALUES: Mapping[str, str] = {
    "job": "dask",
    "instance": ".*",
    "worker_job": "dask",
    "worker": ".*",
    "prefix": ".*",
    "action": "compute",
    "quantile": "0.95",
    "__rate_interval": "1m",
    "__range": "5m",
}


@dataclass(frozen=True)
class Expression:
    """One query of one panel."""

    panel: str
    promql: str

    def __str__(self) -> str:
        return f"{self.panel}: {' '.join(self.promql.split())}"


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Everything that shows data."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", ())
        else:
            yield panel


def filled(text: str, values: Mapping[str, str] = VALUES) -> str:
    """Put values for variables; one that is not known is a KeyError."""
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda found: values[found[1] or found[2]], text)


def of_dashboard(dashboard: Mapping[str, Any]) -> list[Expression]:
    return [
        Expression(f"{dashboard['title']} / {panel['title']}", filled(target["expr"]))
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]


def of_variables(dashboard: Mapping[str, Any]) -> list[Expression]:
    """The series that variables take their values from."""
    found = []
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            series, _ = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
            found.append(Expression(f"{dashboard['title']} / ${variable['name']}", filled(series)))
    return found


def selectors(promql: str) -> list[Any]:
    """Every vector selector of an expression; ValueError if it is no PromQL."""
    found: list[Any] = []
    rest = [promql_parser.parse(promql)]
    while rest:
        part = rest.pop()
        if isinstance(part, promql_parser.VectorSelector):
            found.append(part)
        for name in ("expr", "lhs", "rhs", "param", "vector_selector"):
            within = getattr(part, name, None)
            if within is not None and not isinstance(within, str):
                rest.append(within)
        rest += getattr(part, "args", ())
    return found


def names(namespace: str = "dask") -> dict[str, frozenset[str]]:
    """``{name of a sample: its labels}`` of everything in the catalogue."""
    found = {}
    for scope in SCOPES:
        for family in FAMILIES:
            if scope in family.scopes:
                full = family.full_name(scope, namespace)
                labels = frozenset({*family.labels, "job", "instance"})
                suffixes = family.suffixes
                if family.kind == "histogram":
                    suffixes = (*suffixes, "")
                for suffix in suffixes:
                    more = {"le"} if suffix == "_bucket" else set()
                    found[full + suffix] = labels | more
    return found
