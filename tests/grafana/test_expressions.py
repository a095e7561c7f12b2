"""Dashboards, as they are in the package: their queries, and what each panel must have."""

from __future__ import annotations

import itertools
import re

import pytest

from expressions import (
    DASHBOARDS,
    filled,
    load,
    names,
    of_dashboard,
    of_variables,
    panels,
    selectors,
)
from taskmeter.catalogue import promql

every_dashboard = pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)


def test_there_are_four_dashboards():
    assert [path.stem for path in DASHBOARDS] == [
        "taskmeter-overview",
        "taskmeter-prefix",
        "taskmeter-waste",
        "taskmeter-workers",
    ]
    assert [load(path)["uid"] for path in DASHBOARDS] == [path.stem for path in DASHBOARDS]


@every_dashboard
def test_expressions_parse_and_name_only_families_and_labels_of_the_catalogue(path):
    dashboard = load(path)
    known = names()
    found = [*of_dashboard(dashboard), *of_variables(dashboard)]
    assert found
    for expression in found:
        asked = selectors(expression.promql)
        assert asked, expression
        for selector in asked:
            assert selector.name in known, expression
            labels = {matcher.name for matcher in selector.matchers.matchers}
            assert labels <= known[selector.name], expression


@every_dashboard
def test_expressions_group_by_labels_that_are_there(path):
    known = frozenset().union(*names().values())
    for expression in of_dashboard(load(path)):
        for grouped in re.findall(r"\b(?:by|without) \(([^)]*)\)", expression.promql):
            assert set(grouped.split(", ")) <= known, expression


@every_dashboard
def test_every_selector_is_of_the_chosen_job_and_instance(path):
    for panel in panels(load(path)):
        for target in panel["targets"]:
            for matchers in re.findall(r"dask_taskmeter_\w+(.{0,22})", target["expr"]):
                assert re.match(r'\{job="\$(worker_)?job"', matchers), target["expr"]


@every_dashboard
def test_windows_follow_the_scrape_interval_or_the_time_range(path):
    for panel in panels(load(path)):
        for target in panel["targets"]:
            windows = set(re.findall(r"\[([^\]]*)\]", target["expr"]))
            assert windows <= {"$__rate_interval", "$__range"}, target["expr"]


@every_dashboard
def test_every_panel_says_what_it_shows_in_which_unit(path):
    for panel in panels(load(path)):
        assert panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        if panel["type"] == "heatmap":
            assert panel["options"]["yAxis"]["unit"]
        else:
            assert panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            assert target["legendFormat"], panel["title"]
            assert target["datasource"] == panel["datasource"]


@every_dashboard
def test_descriptions_are_the_catalogues_words(path):
    helps = {
        family.help_in(scope).replace("__", r"\_\_")
        for (scope, _), family in promql.SAMPLES.items()
        if not family.name.endswith("_squares")
    }
    for panel in panels(load(path)):
        assert any(text in panel["description"] for text in helps), panel["title"]


@every_dashboard
def test_users_text_is_never_html(path):
    for panel in panels(load(path)):
        assert panel["type"] in {"timeseries", "stat", "table", "heatmap"}


@every_dashboard
def test_panels_have_ids_of_their_own_and_do_not_overlap(path):
    dashboard = load(path)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    for a, b in itertools.combinations(places, 2):
        assert (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        ), (a, b)
    assert all(place["x"] + place["w"] <= 24 for place in places)


@every_dashboard
def test_every_variable_is_there_and_is_used(path):
    dashboard = load(path)
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert {"datasource", "job", "instance"} <= variables
    text = path.read_text(encoding="utf-8")
    queries = " ".join(target["expr"] for panel in panels(dashboard) for target in panel["targets"])
    asked = set(re.findall(r"\$(\w+)", queries)) - {"__rate_interval", "__range"}
    assert asked <= variables
    unused = {
        name for name in variables - asked if f"${name}" not in text and f"${{{name}" not in text
    }
    assert unused == set()


@every_dashboard
def test_prefixes_with_characters_of_a_regex_are_chosen_as_they_are(path):
    # Grafana escapes the values of variables that may have several, and only these
    dashboard = load(path)
    several = {v["name"] for v in dashboard["templating"]["list"] if v.get("multi")}
    for panel in panels(dashboard):
        for target in panel["targets"]:
            for operator, name in re.findall(r'(=~|=)"\$(\w+)"', target["expr"]):
                assert (operator == "=~") == (name in several), target["expr"]


def test_a_query_of_a_family_that_is_not_there_is_refused():
    for query in ("rate(<no_such_thing_total>[1m])", "<compute_seconds>", "<worker:workers>"):
        with pytest.raises(ValueError, match="No family has samples named"):
            promql.expand(query)


def test_a_variable_that_is_not_known_is_noticed():
    with pytest.raises(KeyError):
        filled("rate(x[$__no_such])")
