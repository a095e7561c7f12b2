from __future__ import annotations

from types import SimpleNamespace

import pytest

from taskmeter.plugins.scheduler.origins import MOST_KEPT, TaskOrigins


def scheduler(*, groups=("g",), tasks=100, state="released"):
    made = {
        f"{name}-{number}": SimpleNamespace(
            state=state,
            group=SimpleNamespace(name=name, span_id="s"),
            annotations={"project": "x", "priority": 3},
        )
        for name in groups
        for number in range(tasks)
    }
    spans = SimpleNamespace(spans={"s": SimpleNamespace(name=("a", "b"))})
    return SimpleNamespace(tasks=made, extensions={"spans": spans})


def test_tasks_of_one_name_are_shared_by_how_many_each_client_sent_and_waits_for():
    origins = TaskOrigins(scheduler())
    keys = [f"g-{number}" for number in range(100)]
    origins.update_graph("a", keys[:80])
    assert origins.clients("g", "s", 80) == {"a": 1.0}
    origins.update_graph("b", keys[:5])
    assert origins.clients("g", "s", 5) == {"b": 1.0}, "the first client's tasks have ended"
    assert origins.clients("g", "s", 5) == {"b": 1.0}, "a retry"
    origins.update_graph("a", keys[:30])
    origins.update_graph("b", keys[:10])
    assert origins.clients("g", "s", 1) == {"a": 0.75, "b": 0.25}


def test_of_a_large_graph_some_tasks_are_looked_at():
    origins = TaskOrigins(scheduler(tasks=50_000))
    origins.update_graph("a", [f"g-{n}" for n in range(50_000)])
    origins.update_graph("b", [f"g-{n}" for n in range(25_000)])
    assert origins.clients("g", "s", 1)["a"] == pytest.approx(2 / 3, rel=0.01)
    assert origins.clients("rare", "s", 1)["a"] == pytest.approx(2 / 3, rel=0.01), "its span's"
    assert origins.clients("g", "another", 1) == {}


def test_what_is_done_already_is_not_waited_for():
    origins = TaskOrigins(scheduler(state="memory"))
    origins.update_graph("a", ["g-0", "gone"])
    assert origins.clients("g", "s", 1) == {}


def test_memory_stays_bounded():
    world = scheduler(groups=[f"g{n}" for n in range(MOST_KEPT + 10)], tasks=1)
    origins = TaskOrigins(world)
    for key in world.tasks:
        origins.update_graph("a", [key])
    assert origins.clients("g0", "none", 1) == {}
    assert origins.clients(f"g{MOST_KEPT}", "s", 1) == {"a": 1.0}


def test_a_task_says_what_it_is_for():
    origins = TaskOrigins(scheduler())
    work, annotation = origins.of_task("g-1")
    assert (work.group, origins.span(work.span_id)) == ("g", "a/b")
    assert annotation.annotation == "project=x"
    assert origins.of_task("gone") == ()
    assert origins.span("gone") == ""
