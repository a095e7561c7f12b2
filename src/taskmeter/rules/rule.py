"""A rule of Prometheus, and a file of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

#: How much an alert matters: "warning" wants somebody's eye today, "info" is good to know.
Severity: TypeAlias = Literal["warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A query that is evaluated again and again, and kept as a series.

    Parameters
    ----------
    record
        The name of the series.
    expr
        PromQL.
    """

    record: str
    expr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A query that should give nothing.

    Parameters
    ----------
    alert
        Its name.
    expr
        PromQL.
    lasting
        For how long it must give something before anybody is told, such as "10m".
    severity
        Its label ``severity``.
    summary, description
        What is the case, as templates of Prometheus.
    runbook
        What to do about it.
    """

    alert: str
    expr: str
    lasting: str
    severity: Severity
    summary: str
    description: str
    runbook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rules that are evaluated one after the other."""

    name: str
    rules: tuple[Recording | Alert, ...]


def as_yaml(groups: Iterable[Group], comment: str) -> str:
    """Return the text of a rule file.

    Parameters
    ----------
    groups
        What is in it.
    comment
        What stands at its top.
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines.append("groups:")
    for group in groups:
        lines += [f"  - name: {_quoted(group.name)}", "    rules:"]
        for rule in group.rules:
            lines += _recording(rule) if isinstance(rule, Recording) else _alert(rule)
    return "\n".join(lines) + "\n"


def _recording(rule: Recording) -> Iterator[str]:
    yield f"      - record: {_quoted(rule.record)}"
    yield from _expression(rule.expr)


def _alert(rule: Alert) -> Iterator[str]:
    yield f"      - alert: {_quoted(rule.alert)}"
    yield from _expression(rule.expr)
    yield f"        for: {_quoted(rule.lasting)}"
    yield from _mapping("labels", {"severity": rule.severity})
    yield from _mapping(
        "annotations",
        {"summary": rule.summary, "description": rule.description, "runbook": rule.runbook},
    )


def _expression(expr: str) -> Iterator[str]:
    yield "        expr: |-"
    yield from (f"          {line}" for line in expr.splitlines())


def _mapping(name: str, items: Mapping[str, str]) -> Iterator[str]:
    yield f"        {name}:"
    yield from (f"          {key}: {_quoted(text)}" for key, text in items.items())


def _quoted(text: str) -> str:
    """Return a scalar of YAML: every string of JSON is one."""
    return json.dumps(text, ensure_ascii=False)
