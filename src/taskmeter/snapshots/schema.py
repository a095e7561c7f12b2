"""JSON schemas of snapshots and other records, made of their dataclasses and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

from taskmeter.distributions.distribution import Distribution
from taskmeter.snapshots.codec import ROWS, VERSION
from taskmeter.snapshots.snapshot import Snapshot

#: A number that is not finite is null in JSON.
_NUMBER: Final = {"type": ["number", "null"]}

_PLAIN: Final[Mapping[Any, Mapping[str, Any]]] = {
    float: _NUMBER,
    int: {"type": "integer"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
}

_DISTRIBUTION: Final = {
    "description": "A distribution: exact count, sum, min and max, and a histogram whose bucket i "
    "of schema s holds the values above 2^((i-1)/2^s) up to 2^(i/2^s). Figures are there if there "
    "are values, std if there are two.",
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        **dict.fromkeys(("mean", "std", "p5", "p25", "p50", "p75", "p95", "p99"), _NUMBER),
    },
    "required": ["count"],
}


@cache
def snapshot_schema() -> Mapping[str, Any]:
    """Return the JSON schema of ``/taskmeter/snapshot.json`` and ``taskmeter snapshot --json``."""
    return document(Snapshot, version=VERSION)


def document(record: type, *, version: int) -> dict[str, Any]:
    """Return the JSON schema of a document that has the fields of a record, and a version.

    Parameters
    ----------
    record
        A dataclass whose docstring has its parameters.
    version
        Rises when a field goes away or changes its meaning; new ones may come at any time.
    """
    definitions: dict[str, Any] = {}
    made = _object(record, definitions)
    made["properties"]["version"] = {"const": version}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"taskmeter {record.__name__.lower()}, version {version}",
        **made,
        "required": ["version", *made["required"]],
        "$defs": definitions,
    }


def _object(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints, says = get_type_hints(record), _descriptions(record)
    properties = {}
    for each in fields(record):
        labels = ROWS.get((record.__name__, each.name))
        made = (
            _of(hints[each.name], definitions)
            if labels is None
            else _rows(hints[each.name], labels, definitions)
        )
        properties[each.name] = {**made, "description": says.get(each.name, "")}
    return {
        "description": (inspect.getdoc(record) or "").split("\n", 1)[0],
        "type": "object",
        "properties": properties,
        "required": [each.name for each in fields(record)],
    }


def _rows(hint: Any, labels: tuple[str, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a mapping that is written as rows, which name their keys."""
    value = get_args(hint)[1]
    names = {label: {"type": "string"} for label in labels}
    named = {"type": "object", "properties": names, "required": list(labels)}
    if value is Distribution:
        names["seconds"] = _of(value, definitions)
        return {"type": "array", "items": named}
    return {"type": "array", "items": {"allOf": [named, _of(value, definitions)]}}


def _of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; records are defined once, and referred to."""
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    arguments = get_args(hint)
    if NoneType in arguments:
        others = [_of(other, definitions) for other in arguments if other is not NoneType]
        return {"anyOf": [*others, {"type": "null"}]}
    if get_origin(hint) is tuple:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if arguments:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    name = hint.__name__
    if name not in definitions:
        definitions[name] = {}
        made = dict(_DISTRIBUTION) if hint is Distribution else None
        definitions[name] = _object(hint, definitions) if made is None else made
    return {"$ref": f"#/$defs/{name}"}


def _descriptions(record: type) -> dict[str, str]:
    """Return ``{field: what its docstring says of it}``, as numpydoc has parameters."""
    text = (inspect.getdoc(record) or "").partition("Parameters\n----------\n")[2]
    says: dict[str, str] = {}
    for entry in re.split(r"\n(?=\S)", text):
        names, _, description = entry.partition("\n")
        words = " ".join(description.split())
        says.update(dict.fromkeys((name.strip() for name in names.split(",")), words))
    return says
