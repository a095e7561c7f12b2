"""Prefixes that count under another name, by rules that may go wrong."""

from __future__ import annotations

import re

import pytest

from taskmeter.cluster.prefix_names import PrefixNames


def names(patterns=(), function=None, *, clock=lambda: 0.0):
    errors: dict[str, int] = {}
    return PrefixNames(dict(patterns), function, errors=errors, clock=clock), errors


def test_the_first_pattern_that_matches_all_of_a_prefix_names_it():
    named, errors = names({r"flow-(\w+)-run\d+": r"flow-\1", r"flow-.*": "other flows"})
    assert [named(p) for p in ("flow-etl-run7", "flow-etl", "a-flow-etl-run7", "sum")] == [
        "flow-etl", "other flows", "a-flow-etl-run7", "sum",
    ]  # fmt: skip
    assert not errors


def test_a_function_names_what_no_pattern_matches_and_is_asked_once():
    asked = []

    def function(prefix):
        asked.append(prefix)
        return prefix.split("_")[0]

    named, _ = names({"sum": "total"}, function)
    assert [named(p) for p in ("sum", "load_1", "load_2", "load_1")] == [
        "total", "load", "load", "load",
    ]  # fmt: skip
    assert asked == ["load_1", "load_2"]


@pytest.mark.parametrize("rules", [({".*": r"\9"}, None), ({}, len), ({}, str.isdigit), ({}, int)])
def test_a_rule_that_fails_or_says_nothing_leaves_the_prefix(rules):
    named, errors = names(*rules)
    assert named("sum") == "sum"
    assert errors == {"prefix rule": 1}


def test_a_slow_rule_is_used_no_more():
    ticks = iter([0.0, 1.0])
    named, errors = names({}, str.upper, clock=lambda: next(ticks))
    assert [named("a"), named("b")] == ["A", "b"]
    assert errors == {"slow prefix rule": 1}


def test_names_are_bounded_and_a_pattern_that_is_none_is_refused():
    named, _ = names({}, lambda prefix: prefix * 1000)
    assert len(named("sum")) == 200
    with pytest.raises(ValueError, match=re.escape("prefix-patterns has '('")):
        names({"(": "x"})
