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
