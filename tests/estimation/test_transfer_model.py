from __future__ import annotations

from math import inf, isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmeter.estimation.transfer_model import MAX_PAIRS, PAIR_ENOUGH, Transfers


def learned(sizes, seconds, pair=("a", "b")):
    transfers = Transfers()
    for size, spent in zip(sizes, seconds, strict=True):
        transfers.add(*pair, float(size), float(spent))
    return transfers


@pytest.mark.parametrize("sizes", [(1e3, 1e9), (1e3, 1e5, 1e7), (10.0, 1e8)])
def test_p8_small_and_large_transfers_are_both_predicted(sizes):
    model = learned(sizes, [0.01 + size / 100e6 for size in sizes]).model()
    assert model.predict(1e3).seconds == pytest.approx(0.01001, rel=1e-3)
    assert model.predict(1e9).seconds == pytest.approx(10.01, rel=1e-3)


@pytest.mark.parametrize("bandwidth", [20e6, 200e6, 1e9])
@pytest.mark.parametrize("latency", [0.005, 0.05])
def test_predictions_hold_from_10_kb_to_100_mb(bandwidth, latency):
    rng = np.random.default_rng(3)
    sizes = np.exp(rng.uniform(log(1e4), log(1e8), 600))
    true = (latency + sizes / bandwidth) * rng.lognormal(-0.08, 0.4, 600)
    model = learned(sizes[:200], true[:200]).model()
    predicted = np.array([model.predict(size).seconds for size in sizes[200:]])
    assert 0.9 <= predicted.sum() / true[200:].sum() <= 1.1
    assert np.median(np.abs(np.log(predicted / true[200:]))) <= 0.4
    assert model.noise == pytest.approx(0.42, abs=0.1)


def test_a_change_of_bandwidth_is_followed():
    rng = np.random.default_rng(3)
    sizes = np.exp(rng.uniform(log(1e4), log(1e8), 4000))
    bandwidth = np.where(np.arange(4000) < 1000, 1e9, 1e8)
    assert learned(sizes, 0.01 + sizes / bandwidth).model().bandwidth == pytest.approx(1e8, rel=0.1)


def test_a_pair_has_its_own_model_once_it_has_had_enough():
    transfers = learned([1e4, 1e6, 1e8] * 100, [0.0101, 0.02, 1.01] * 100)
    for number in range(PAIR_ENOUGH - 1):
        transfers.add("far", "away", 1e6 * (1 + number), 0.5 + 0.1 * (1 + number))
    cluster = transfers.model()
    assert transfers.pair("far", "away") == cluster
    assert transfers.pair("never", "seen") == cluster
    for number in range(200):
        transfers.add("far", "away", 1e6 * (1 + number % 20), 0.5 + 0.1 * (1 + number % 20))
    own = transfers.pair("far", "away")
    assert own.predict(1e7).seconds == pytest.approx(1.5, rel=0.15)
    assert transfers.pair("a", "b").predict(1e8).seconds < 2
    transfers.remove("away")
    assert transfers.pair("far", "away") == transfers.model()


def test_an_untold_cluster_is_assumed_and_its_error_unknown():
    model = Transfers().model()
    assert model.predict(1e8).seconds == pytest.approx(1.005)
    assert isnan(model.predict(1e8).standard_error)
    assert model.transfers == 0


def test_invalid_transfers_are_refused_and_counted():
    transfers = Transfers()
    for size, seconds in [(-1.0, 1.0), (1.0, -1.0), (inf, 1.0), (1.0, float("nan"))]:
        transfers.add("a", "b", size, seconds)
    assert transfers.invalid == 4
    assert transfers.model().transfers == 0


def test_the_number_of_pairs_is_bounded():
    transfers = Transfers()
    for number in range(MAX_PAIRS + 10):
        transfers.add(str(number), "b", 1.0, 1.0)
    assert len(transfers._pairs) == MAX_PAIRS
    assert ("0", "b") not in transfers._pairs


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
    predictions = [model.predict(size).seconds for size in (0.0, 1.0, 1e6, 1e12)]
    assert predictions == sorted(predictions)
