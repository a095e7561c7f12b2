"""How long moving some bytes from one worker to another takes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import Final

import numpy as np

from taskmeter.distributions.grid import Floats, index_of

#: after this many transfers one counts half
HALF_LIFE: Final = 512.0
#: sizes are added up by power of two, from 1 byte to 2**63
_SIZES: Final = 64
_ITERATIONS: Final = 8
_SHORTEST: Final = 1e-9
#: what weighs less is forgotten, and weights grow no further than this
_LEAST_WEIGHT: Final = 1e-12
_MOST_WEIGHT: Final = 1e50
#: rows
_WEIGHT, _BYTES, _SECONDS, _SQUARES, _PRODUCTS, _BYTE_SQUARES = range(6)
#: What a cluster is like that has moved nothing yet, 5 ms and 100 MB/s, as two transfers of 0 and
#: of 1e8 bytes that hardly count.
_ASSUMED: Final = 5e-4 * np.array(
    [[1, 1], [0, 1e8], [0.005, 1.005], [0, 0], [0, 1.005e8], [0, 1e16]]
)


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


class Transfers:
    """Learns from every transfer of the cluster, small ones too: decayed sums by size."""

    def __init__(self) -> None:
        self._growth = 2 ** (1 / HALF_LIFE)
        self._rows = np.zeros((6, _SIZES))
        #: of the latest transfer, in the rows; it grows where the others should fade
        self._weight = 1.0
        self._squares = 0.0

    def add(self, size: float, seconds: float) -> None:
        """Note that ``size`` bytes took ``seconds``; figures that cannot be are passed over."""
        if not (0 <= size < inf and 0 <= seconds < inf):
            return
        self._weight *= self._growth
        if self._weight > _MOST_WEIGHT:
            self._rows /= self._weight
            self._squares /= self._weight**2
            self._weight = 1.0
        column = min(max(index_of(size, 0), 0), _SIZES - 1) if size > 0 else 0
        values = (1.0, size, seconds, seconds * seconds, size * seconds, size * size)
        self._rows[:, column] += np.array(values) * self._weight
        self._squares += self._weight**2

    def model(self) -> TransferModel:
        """Return the cluster's model; without a transfer 5 ms and 100 MB/s, ``nan`` noise.

        Least squares of relative errors, iteratively reweighted by the prediction: each transfer
        weighs the inverse square of its predicted seconds, which is right when its error is a
        factor (Carroll and Ruppert 1988, 2.1). Sums by power of two are exact but for the weight,
        which is that of the mean size.
        """
        rows = self._rows / self._weight
        rows = rows[:, rows[_WEIGHT] > _LEAST_WEIGHT]
        every = np.concatenate([rows, _ASSUMED], axis=1)
        sizes = every[_BYTES] / every[_WEIGHT]
        latency, slope = _solved(_ASSUMED)
        for _ in range(_ITERATIONS):
            latency, slope = _solved(every / np.maximum(latency + slope * sizes, _SHORTEST) ** 2)
        total = float(self._rows[_WEIGHT].sum())
        return TransferModel(
            latency=latency,
            bandwidth=1 / slope if slope > 0 else inf,
            noise=_noise(rows, (latency, slope)),
            transfers=total**2 / self._squares if self._squares else 0.0,
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
