"""What moving data between real workers takes, and Dask's bandwidth where that is wanted."""

from __future__ import annotations

import dask
import numpy as np
import pytest
from distributed import wait
from real_clusters import metered_cluster, wait_until

from taskmeter.config import Settings


def total(*arrays):
    return sum(array.nbytes for array in arrays)


def move(metered, sizes) -> None:
    """Make as many results on one worker, and take each to the other."""
    here, there = metered.client.scheduler_info()["workers"]
    for number, size in enumerate(sizes):
        made = metered.client.submit(
            np.ones, size // 8, workers=[here], key=f"made-{size}-{number}"
        )
        wait(metered.client.submit(total, made, workers=[there], pure=False))


def model_of(metered):
    return metered.snapshot().transfers.model


def test_a_model_of_transfers_is_learned_and_given_to_dask_where_wanted():
    with (
        dask.config.set({"taskmeter.bandwidth": "on"}),
        metered_cluster(workers=2, threads=1) as metered,
    ):
        metered.reporting(2)
        assert metered.snapshot().transfers.model is None
        move(metered, [10_000, 1_000_000, 10_000_000, 100_000] * 8)
        wait_until(lambda: model_of(metered).transfers > 25, what="transfers")
        model = model_of(metered)
        assert 0 <= model.latency < 1
        assert model.bandwidth > 1e6
        wait_until(
            lambda: (
                metered.scheduler.bandwidth == pytest.approx(model_of(metered).bandwidth, rel=0.01)
            ),
            what="the bandwidth",
        )


@pytest.mark.parametrize(("value", "means"), [("on", True), ("off", False), (True, True)])
def test_the_setting_is_on_or_off(value, means):
    with dask.config.set({"taskmeter.bandwidth": value}):
        assert Settings.from_dask().bandwidth is means
    assert Settings.from_dask().bandwidth is False
