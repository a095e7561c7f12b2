from __future__ import annotations

from math import inf, isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.estimation.transfer_model import Transfers


def predicted(model, size):
    return model.latency + size / model.bandwidth


def learned(sizes, seconds):
    transfers = Transfers()
    for size, spent in zip(sizes, seconds, strict=True):
        transfers.add(float(size), float(spent))
    return transfers


@pytest.mark.parametrize("sizes", [(1e3, 1e9), (1e3, 1e5, 1e7), (10.0, 1e8)])
def test_p8_small_and_large_transfers_are_both_predicted(sizes):
    model = learned(sizes, [0.01 + size / 100e6 for size in sizes]).model()
    assert predicted(model, 1e3) == pytest.approx(0.01001, rel=1e-3)
    assert predicted(model, 1e9) == pytest.approx(10.01, rel=1e-3)


@pytest.mark.parametrize("bandwidth", [20e6, 200e6, 1e9])
@pytest.mark.parametrize("latency", [0.005, 0.05])
def test_predictions_hold_from_10_kb_to_100_mb(bandwidth, latency):
    rng = np.random.default_rng(3)
    sizes = np.exp(rng.uniform(log(1e4), log(1e8), 600))
    true = (latency + sizes / bandwidth) * rng.lognormal(-0.08, 0.4, 600)
    model = learned(sizes[:200], true[:200]).model()
    told = predicted(model, sizes[200:])
    assert 0.9 <= told.sum() / true[200:].sum() <= 1.1
    assert np.median(np.abs(np.log(told / true[200:]))) <= 0.4
    assert model.noise == pytest.approx(0.42, abs=0.1)


def test_a_change_of_bandwidth_is_followed():
    rng = np.random.default_rng(3)
    sizes = np.exp(rng.uniform(log(1e4), log(1e8), 4000))
    bandwidth = np.where(np.arange(4000) < 1000, 1e9, 1e8)
    assert learned(sizes, 0.01 + sizes / bandwidth).model().bandwidth == pytest.approx(1e8, rel=0.1)


def test_an_untold_cluster_is_assumed_and_its_error_unknown():
    model = Transfers().model()
    assert predicted(model, 1e8) == pytest.approx(1.005)
    assert isnan(model.noise)
    assert model.transfers == 0


def test_invalid_transfers_are_refused():
    transfers = Transfers()
    for size, seconds in [(-1.0, 1.0), (1.0, -1.0), (inf, 1.0), (1.0, float("nan"))]:
        transfers.add(size, seconds)
    assert transfers.model().transfers == 0


@given(
    st.lists(
        st.tuples(st.floats(0, 1e12), st.floats(0, 1e6)),
        min_size=1,
        max_size=40,
    )
)
def test_a_prediction_is_never_negative_and_rises_with_size(seen):
    model = learned(*zip(*seen, strict=True)).model()
    assert model.latency >= 0
    assert model.bandwidth > 0
    assert model.noise >= 0
    predictions = [predicted(model, size) for size in (0.0, 1.0, 1e6, 1e12)]
    assert predictions == sorted(predictions)
