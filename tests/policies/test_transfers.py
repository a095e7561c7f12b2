from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmeter.estimation.transfer_model import Transfer, TransferModel, Transfers
from taskmeter.policies.transfers import steal, write_bandwidth


def second(error=0.0):
    return Transfer(seconds=1.0, standard_error=error)


def test_p7_a_short_task_is_not_moved_and_a_long_one_is():
    short = steal(compute_seconds=0.01, transfer=second(), victim_seconds=10.0)
    assert not short.pays
    assert short.because == "moving takes 1.0 s, computing 10.0 ms"
    long = steal(compute_seconds=10.0, transfer=second(), victim_seconds=10.0)
    assert long.pays
    assert long.gain_seconds == 9.0
    assert long.because == "moving takes 1.0 s, computing 10.0 s, and it is done 9.0 s earlier"


def test_p8_small_and_large_transfers_decide_by_latency_and_bandwidth():
    transfers = Transfers()
    for size in (1e3, 1e6, 1e9) * 20:
        transfers.add("a", "b", size, 0.01 + size / 100e6)
    model = transfers.model()
    for size, seconds in ((1e3, 0.01001), (1e9, 10.01)):
        moved = model.predict(size)
        assert moved.seconds == pytest.approx(seconds, rel=1e-3)
        assert steal(compute_seconds=20.0, transfer=moved, victim_seconds=20.0).pays
        assert not steal(compute_seconds=0.001, transfer=moved, victim_seconds=20.0).pays


def test_an_unsure_gain_is_none():
    assert not steal(compute_seconds=10.0, transfer=second(9.5), victim_seconds=10.0).pays
    assert not steal(compute_seconds=10.0, transfer=second(nan), victim_seconds=1.5).pays


def test_a_busy_thief_does_not_pay():
    one = steal(compute_seconds=10.0, transfer=second(), victim_seconds=10.0, thief_seconds=9.5)
    assert not one.pays
    assert one.because.endswith("the wait is 10.0 s here and 9.5 s there")


positive = st.floats(0, 1e6)


@settings(deadline=None)
@given(positive, positive, positive, positive)
def test_a_longer_wait_never_makes_moving_pay_less(compute, moved, wait, more):
    transfer = Transfer(seconds=moved, standard_error=0.1 * moved)
    before = steal(compute_seconds=compute, transfer=transfer, victim_seconds=wait)
    after = steal(compute_seconds=compute, transfer=transfer, victim_seconds=wait + more)
    assert after.pays >= before.pays


def model(bandwidth=100e6, transfers=50.0):
    return TransferModel(latency=0.01, bandwidth=bandwidth, noise=0.1, transfers=transfers)


def test_the_bandwidth_is_written_with_its_reason():
    one = write_bandwidth(model(), dask_bandwidth=50e6, last=None)
    assert one.bytes_per_second == 100e6
    assert one.because == ("50 transfers say 100 MB/s and a latency of 10.0 ms; Dask had 50.0 MB/s")


def test_a_write_of_the_bandwidth_is_bounded_and_sane():
    assert write_bandwidth(model(), dask_bandwidth=1.0, last=10e6).bytes_per_second == 20e6
    assert write_bandwidth(model(), dask_bandwidth=1.0, last=1e9).bytes_per_second == 500e6
    assert write_bandwidth(model(), dask_bandwidth=100e6, last=None) is None
    for bandwidth in (nan, inf, 0.0, -1.0):
        assert write_bandwidth(model(bandwidth), dask_bandwidth=1.0, last=None) is None
    assert write_bandwidth(model(transfers=5.0), dask_bandwidth=1.0, last=None) is None
