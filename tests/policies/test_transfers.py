from __future__ import annotations

from math import inf, nan

from taskmeter.estimation.transfer_model import TransferModel
from taskmeter.policies.transfers import write_bandwidth


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
