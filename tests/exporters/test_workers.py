"""How many workers are metered, and by which version."""

from __future__ import annotations

from exposed import BUILD, exporter, snapshot, text

NAME = "dask_taskmeter_workers"


def series(metered: str, version: str):
    return NAME, (("metered", metered), ("version", version))


def test_workers_are_told_apart_by_version_and_by_having_none():
    taken = snapshot({}, worker_versions={"0.0.9": 3, BUILD.version: 4, "": 2})
    found = {key: number for key, number in text(exporter(taken)).items() if key[0] == NAME}
    assert found == {
        series("yes", "0.0.9"): 3,
        series("yes", BUILD.version): 4,
        series("no", ""): 2,
    }


def test_without_workers_there_are_zeros():
    found = {key: number for key, number in text(exporter(snapshot({}))).items() if key[0] == NAME}
    assert found == {series("yes", BUILD.version): 0, series("no", ""): 0}


def test_a_worker_does_not_tell_of_others():
    found = text(exporter(snapshot({}, worker_versions={"": 2}), scope="worker"))
    assert not [name for name, _ in found if name.endswith("_workers")]


def test_workers_that_came_and_went_are_counted_by_reason():
    taken = snapshot({}, workers_joined=5, workers_left={"retired": 2, "lost": 1})
    found = text(exporter(taken))
    assert found["dask_taskmeter_workers_joined_total", ()] == 5
    assert found["dask_taskmeter_workers_left_total", (("reason", "retired"),)] == 2
    assert found["dask_taskmeter_workers_left_total", (("reason", "lost"),)] == 1
