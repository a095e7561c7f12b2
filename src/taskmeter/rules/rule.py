"""Prometheus rules, and how a rule file is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import yaml

#: "warning" needs attention today, "info" does not.
Severity: TypeAlias = Literal["warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A query that Prometheus evaluates at intervals and keeps as a series.

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
    """A query that returns nothing while all is well.

    Parameters
    ----------
    alert
        Its name.
    expr
        PromQL.
    lasting
        How long it must return something before the alert fires, such as "10m".
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


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines, such as PromQL, as block literals."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(groups: Iterable[Group], comment: str) -> str:
    """Return the text of a rule file.

    Parameters
    ----------
    groups
        What is in it.
    comment
        What stands at its top.
    """
    plain = [{"name": g.name, "rules": [_plain(rule) for rule in g.rules]} for g in groups]
    head = "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines())
    body: str = yaml.dump(
        {"groups": plain}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000
    )
    return head + body


def _plain(rule: Recording | Alert) -> dict[str, object]:
    if isinstance(rule, Recording):
        return {"record": rule.record, "expr": rule.expr}
    return {
        "alert": rule.alert,
        "expr": rule.expr,
        "for": rule.lasting,
        "labels": {"severity": rule.severity},
        "annotations": {
            "summary": rule.summary,
            "description": rule.description,
            "runbook": rule.runbook,
        },
    }
