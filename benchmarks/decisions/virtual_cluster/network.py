"""A network of equal links: transfers share what goes out of one worker and into another."""

from __future__ import annotations

from collections.abc import Callable

from virtual_cluster.clock import Clock


class _Flow:
    __slots__ = ("done", "left", "rate", "since", "source", "target", "turn")

    def __init__(self, source: str, target: str, size: float, done: Callable[[], None]) -> None:
        self.source = source
        self.target = target
        #: bytes that were left at the instant `since`
        self.left = size
        self.rate = 0.0
        self.since = 0.0
        #: grows when the rate changes, so that an end that was foreseen before does not count
        self.turn = 0
        self.done = done


class Network:
    """Moves bytes; each worker has the same bandwidth in and out, and switches are no limit.

    A flow gets an equal share of the scarcer of its two links, as flows of one protocol do; what it
    leaves of the other one is left unused, so a busy network is rather too slow by a little.

    Parameters
    ----------
    clock
        On which bytes take their time.
    latency
        Seconds before the first byte of a transfer comes.
    bandwidth
        Bytes a second, of each worker and direction.
    """

    def __init__(self, clock: Clock, *, latency: float, bandwidth: float) -> None:
        self.latency = latency
        self.bandwidth = bandwidth
        #: all that came, and how often
        self.moved = 0.0
        self.transfers = 0
        self._clock = clock
        #: {worker: flows out of it}, {worker: flows into it}
        self._out: dict[str, set[_Flow]] = {}
        self._in: dict[str, set[_Flow]] = {}

    def send(self, source: str, target: str, size: float, done: Callable[[], None]) -> None:
        flow = _Flow(source, target, max(size, 1.0), done)
        self.moved += size
        self.transfers += 1
        self._clock.later(self.latency, lambda: self._begin(flow))

    def _begin(self, flow: _Flow) -> None:
        flow.since = self._clock.now
        self._out.setdefault(flow.source, set()).add(flow)
        self._in.setdefault(flow.target, set()).add(flow)
        self._share(flow)

    def _end(self, flow: _Flow, turn: int) -> None:
        if flow.turn != turn:
            return
        self._out[flow.source].discard(flow)
        self._in[flow.target].discard(flow)
        self._share(flow)
        flow.done()

    def _share(self, changed: _Flow) -> None:
        """Share the links of a flow that began or ended."""
        now = self._clock.now
        for flow in sorted(
            self._out[changed.source] | self._in[changed.target],
            key=lambda flow: (flow.source, flow.target, flow.since),
        ):
            sharing = max(len(self._out[flow.source]), len(self._in[flow.target]))
            rate = self.bandwidth / sharing
            if rate == flow.rate:
                continue
            flow.left = max(0.0, flow.left - flow.rate * (now - flow.since))
            flow.since = now
            flow.rate = rate
            flow.turn += 1
            self._clock.later(
                flow.left / rate, lambda flow=flow, turn=flow.turn: self._end(flow, turn)
            )
