"""How long moving some bytes from one worker to another takes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats, index_of

#: after this many transfers one counts half
HALF_LIFE: Final = 512.0
#: after this many of a pair one of the pair counts half
PAIR_HALF_LIFE: Final = 128.0
#: fewer transfers of a pair, and the cluster's model is taken
PAIR_ENOUGH: Final = 20
#: the cluster's model then counts as this many transfers of the pair
_PAIR_PRIOR: Final = 1.0
#: the most pairs kept; the one that moved nothing for the longest time goes first
MAX_PAIRS: Final = 4096
#: sizes are added up by power of two, from 1 byte to 2**63
_SIZES: Final = 64
#: what a cluster is like that has moved nothing yet, and how many transfers that counts for
_UNKNOWN_LATENCY: Final = 0.005
_UNKNOWN_BANDWIDTH: Final = 100e6
_UNKNOWN_WEIGHT: Final = 1e-3
#: bytes at which an assumption stands for the bandwidth
_LARGE: Final = 1e8
_ITERATIONS: Final = 8
_SHORTEST: Final = 1e-9
#: what weighs less is forgotten, and weights grow no further than this
_LEAST_WEIGHT: Final = 1e-12
_MOST_WEIGHT: Final = 1e50
#: rows
_WEIGHT, _BYTES, _SECONDS, _SQUARES, _PRODUCTS, _BYTE_SQUARES = range(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """A predicted transfer, in seconds."""

    seconds: float
    #: of one transfer of that size, the model's own error included
    standard_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferModel:
    """Seconds for bytes: ``latency + bytes / bandwidth``."""

    #: seconds
    latency: float
    #: bytes per second; infinite when bytes cost nothing
    bandwidth: float
    #: standard deviation of a transfer, relative to its prediction; ``nan`` without a transfer
    noise: float
    #: how many equally weighted transfers it rests on
    transfers: float

    def predict(self, size: float) -> Transfer:
        """Return the seconds that ``size`` bytes take."""
        seconds = self.latency + size / self.bandwidth
        own = 2 / self.transfers if self.transfers else inf
        return Transfer(seconds=seconds, standard_error=seconds * self.noise * sqrt(1 + own))


class _Sums:
    """Decayed sums of transfers by power of two of their bytes."""

    def __init__(self, half_life: float) -> None:
        self._growth = 2 ** (1 / half_life)
        self._rows = np.zeros((6, _SIZES))
        #: of the latest transfer, in the rows; it grows where the others should fade
        self._weight = 1.0
        self._squares = 0.0
        self.count = 0

    def add(self, size: float, seconds: float) -> None:
        self._weight *= self._growth
        if self._weight > _MOST_WEIGHT:
            self._rows /= self._weight
            self._squares /= self._weight**2
            self._weight = 1.0
        column = min(max(index_of(size, 0), 0), _SIZES - 1) if size > 0 else 0
        values = (1.0, size, seconds, seconds * seconds, size * seconds, size * size)
        self._rows[:, column] += np.array(values) * self._weight
        self._squares += self._weight**2
        self.count += 1

    def rows(self) -> Floats:
        """Return the sums of the sizes in use, the latest transfer weighing 1."""
        rows = self._rows / self._weight
        used: Floats = rows[:, rows[_WEIGHT] > _LEAST_WEIGHT]
        return used

    @property
    def effective(self) -> float:
        total = float(self._rows[_WEIGHT].sum())
        return total**2 / self._squares if self.count else 0.0


class Transfers:
    """Learns from every transfer, small ones too, for the cluster and for each pair of workers."""

    def __init__(self) -> None:
        self._all = _Sums(HALF_LIFE)
        #: {(sender, receiver): sums}, the latest last
        self._pairs: OrderedDict[tuple[str, str], _Sums] = OrderedDict()
        self._invalid = 0

    @property
    def invalid(self) -> int:
        """How many transfers were refused, for negative or non-finite figures."""
        return self._invalid

    def add(self, sender: str, receiver: str, size: float, seconds: float) -> None:
        """Note that ``size`` bytes took ``seconds``."""
        if not (isfinite(size) and isfinite(seconds) and size >= 0 and seconds >= 0):
            self._invalid += 1
            return
        self._all.add(size, seconds)
        pair = sender, receiver
        sums = self._pairs.get(pair)
        if sums is None:
            sums = self._pairs[pair] = _Sums(PAIR_HALF_LIFE)
            if len(self._pairs) > MAX_PAIRS:
                self._pairs.popitem(last=False)
        self._pairs.move_to_end(pair)
        sums.add(size, seconds)

    def remove(self, worker: str) -> None:
        """Forget the pairs of a worker that went away."""
        for pair in [pair for pair in self._pairs if worker in pair]:
            del self._pairs[pair]

    def model(self) -> TransferModel:
        """Return the cluster's model; without a transfer 5 ms and 100 MB/s, ``nan`` noise."""
        return _fitted(self._all, _UNKNOWN_LATENCY, _UNKNOWN_BANDWIDTH, _UNKNOWN_WEIGHT)

    def pair(self, sender: str, receiver: str) -> TransferModel:
        """Return the model of a pair: the cluster's until it has had 20 transfers.

        From then on the cluster's counts like one transfer of the pair, which settles what is left
        open when all its sizes are alike.
        """
        cluster = self.model()
        sums = self._pairs.get((sender, receiver))
        if sums is None or sums.count < PAIR_ENOUGH:
            return cluster
        return _fitted(sums, cluster.latency, cluster.bandwidth, _PAIR_PRIOR)


def _fitted(sums: _Sums, latency: float, bandwidth: float, weight: float) -> TransferModel:
    """Fit by least squares of relative errors, iteratively reweighted by the prediction.

    Each transfer weighs the inverse square of its predicted seconds, which is right when its error
    is a factor (Carroll and Ruppert 1988, 2.1). Sums by power of two are exact but for the weight,
    which is that of the mean size. An assumption enters as two transfers, of 0 and of 1e8 bytes.
    """
    rows = sums.rows()
    slope = 1 / bandwidth
    assumed = np.array(
        [
            [weight / 2] * 2,
            [0, weight / 2 * _LARGE],
            [weight / 2 * latency, weight / 2 * (latency + _LARGE * slope)],
            [0, 0],
            [0, weight / 2 * _LARGE * (latency + _LARGE * slope)],
            [0, weight / 2 * _LARGE**2],
        ]
    )
    every = np.concatenate([rows, assumed], axis=1)
    sizes = every[_BYTES] / every[_WEIGHT]
    model = latency, slope
    for _ in range(_ITERATIONS):
        model = _solved(every / np.maximum(model[0] + model[1] * sizes, _SHORTEST) ** 2)
    return TransferModel(
        latency=model[0],
        bandwidth=1 / model[1] if model[1] > 0 else inf,
        noise=_noise(rows, model),
        transfers=sums.effective,
    )


def _solved(rows: Floats) -> tuple[float, float]:
    """Solve the normal equations of ``seconds = latency + slope * bytes``, neither negative."""
    w, b, t, _, bt, bb = rows.sum(axis=1).tolist()
    determinant = w * bb - b * b
    latency = (t * bb - bt * b) / determinant
    slope = (w * bt - b * t) / determinant
    if latency < 0:
        return 0.0, bt / bb
    if slope < 0:
        return t / w, 0.0
    return latency, slope


def _noise(rows: Floats, model: tuple[float, float]) -> float:
    if not rows.shape[1]:
        return nan
    latency, slope = model
    w, b, t, tt, bt, bb = rows
    residuals = (
        tt - 2 * latency * t - 2 * slope * bt + latency**2 * w + 2 * latency * slope * b
        + slope**2 * bb
    )  # fmt: skip
    predicted = np.maximum(latency + slope * b / w, _SHORTEST)
    return sqrt(max(float((residuals / predicted**2).sum() / w.sum()), 0.0))
