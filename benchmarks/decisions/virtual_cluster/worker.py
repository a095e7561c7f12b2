"""A simulated worker: distributed's own state machine of a worker, on a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.sizeof import sizeof
from distributed import worker_state_machine as machine

from simulated_meter import SimulatedMeter
from taskmeter.plugins.worker.plugin import MESSAGES_A_HEARTBEAT
from taskmeter.protocol.names import STREAM_OP

if TYPE_CHECKING:
    from virtual_cluster.cluster import VirtualCluster

#: what the scheduler's messages are to a worker's state machine
EVENTS = {
    "cancel-compute": machine.CancelComputeEvent,
    "acquire-replicas": machine.AcquireReplicasEvent,
    "compute-task": machine.ComputeTaskEvent,
    "free-keys": machine.FreeKeysEvent,
    "remove-replicas": machine.RemoveReplicasEvent,
    "steal-request": machine.StealRequestEvent,
    "refresh-who-has": machine.RefreshWhoHasEvent,
    "remove-worker": machine.RemoveWorkerEvent,
}
#: as distributed does, smaller transfers say nothing of the bandwidth
TELLING_BYTES = 1_000_000


class Result:
    """Stands for what a task gave: it has a size."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


sizeof.register(Result)(lambda result: result.nbytes)


class SimulatedWorker:
    """Runs tasks that last as long as they are told to.

    Parameters
    ----------
    cluster
        Where it lives.
    address
        Its own.
    threads
        How many tasks it runs at a time.
    metered
        Whether it has taskmeter's part.
    """

    def __init__(
        self, cluster: VirtualCluster, address: str, *, threads: int, metered: bool
    ) -> None:
        self.address = address
        self.state = machine.WorkerState(
            nthreads=threads,
            address=address,
            validate=False,
            transfer_message_bytes_limit=50e6,
        )
        self.alive = True
        self.bandwidth = cluster.scheduler.bandwidth
        self._cluster = cluster
        self._clock = cluster.clock
        self._meter = (
            SimulatedMeter(f"meter of {address}", self._clock.now, threads) if metered else None
        )
        self._message_due = False
        self._earliest = 0.0

    # Messages

    def send(self, *messages: dict[str, Any]) -> None:
        """Take the scheduler's messages, as the scheduler's end of the connection."""
        for message in messages:
            self._cluster.deliver(lambda message=message: self._receive(dict(message)))

    def closed(self) -> bool:
        return not self.alive

    def _receive(self, message: dict[str, Any]) -> None:
        if not self.alive:
            return
        operation = message.pop("op")
        if operation in {"close", "close-stream"}:
            self.alive = False
        elif operation == "worker-status-change":
            kind = machine.UnpauseEvent if message["status"] == "running" else machine.PauseEvent
            self.handle(kind(stimulus_id=message["stimulus_id"]))
        elif operation in EVENTS:
            if operation == "compute-task":
                message["run_spec"] = None
            self.handle(EVENTS[operation](**message))
        else:
            raise ValueError(f"A worker knows nothing of {operation}.")

    def handle(self, event: machine.StateMachineEvent) -> None:
        """Let the state machine decide, and do what it says."""
        if not self.alive:
            return
        for instruction in self.state.handle_stimulus(event):
            if isinstance(instruction, machine.Execute):
                self._execute(instruction.key)
            elif isinstance(instruction, machine.GatherDep):
                self._gather(instruction)
            elif isinstance(instruction, machine.SendMessageToScheduler):
                self._cluster.tell(self.address, instruction.to_dict())

    # Work

    def _execute(self, key: str) -> None:
        task = self.state.tasks[key]
        start, run_id, prefix = self._clock.now, task.run_id, task.prefix
        task.start_time = start
        seconds = self._cluster.durations[key]
        if self._meter is not None:
            self._meter.start(key, prefix, run_id, start)
            self._send_soon()

        def finish() -> None:
            if self.alive:
                self._finish(key, run_id, start)

        self._clock.later(seconds, finish)

    def _finish(self, key: str, run_id: int, start: float) -> None:
        now = self._clock.now
        size = self._cluster.sizes.get(key, 28)
        self._cluster.busy_seconds += now - start
        if self._meter is not None:
            self._meter.end(key, run_id, now, output_bytes=float(size))
            self._send_soon()
        self.handle(
            machine.ExecuteSuccessEvent(
                key=key,
                run_id=run_id,
                value=Result(size),
                start=start,
                stop=now,
                nbytes=size,
                type=Result,
                stimulus_id=f"finished-{key}-{run_id}",
            )
        )

    def _gather(self, wanted: machine.GatherDep) -> None:
        begin = self._clock.now

        def arrive() -> None:
            if self.alive:
                self._arrive(wanted, begin)

        self._cluster.network.send(wanted.worker, self.address, wanted.total_nbytes, arrive)

    def _arrive(self, wanted: machine.GatherDep, begin: float) -> None:
        size, stimulus = wanted.total_nbytes, f"gathered-{wanted.stimulus_id}"
        source = self._cluster.workers.get(wanted.worker)
        if source is None or not source.alive:
            self.handle(
                machine.GatherDepNetworkFailureEvent(
                    worker=wanted.worker, total_nbytes=size, stimulus_id=stimulus
                )
            )
            return
        seconds = self._clock.now - begin
        if size > TELLING_BYTES and seconds > 0:
            self.bandwidth = 0.95 * self.bandwidth + 0.05 * size / seconds
        held = source.state.data
        self.handle(
            machine.GatherDepSuccessEvent(
                worker=wanted.worker,
                data={key: held[key] for key in wanted.to_gather if key in held},
                total_nbytes=size,
                stimulus_id=stimulus,
            )
        )

    def find_missing(self) -> None:
        """Ask where dependencies are that were not where they should have been."""
        if self.state.missing_dep_flight:
            self.handle(machine.FindMissingEvent(stimulus_id=f"missing-{self._clock.now}"))

    # Heartbeats and the meter's messages

    def heartbeat(self, interval: float) -> float:
        """Send a heartbeat, and a message of the meter; return the seconds until the next one."""
        now = self._clock.now
        if self._meter is not None:
            self._send_message()
        answer = self._cluster.scheduler.handlers["heartbeat_worker"](
            address=self.address,
            resolve_address=False,
            now=now,
            metrics=self._metrics(),
            executing={
                task.key: now - task.start_time
                for task in (*self.state.executing, *self.state.long_running)
                if task.start_time is not None
            },
            extensions={},
        )
        if answer["status"] != "OK":
            # as a real worker does, which is how an error in a heartbeat ends
            self.alive = False
            self._cluster.closed_by_heartbeat += 1
        return float(answer.get("heartbeat-interval", interval))

    def _send_soon(self) -> None:
        if not self._message_due:
            self._message_due = True
            self._clock.call(self._earliest, self._send_due)

    def _send_due(self) -> None:
        self._message_due = False
        self._send_message()

    def _send_message(self) -> None:
        now = self._clock.now
        self._earliest = now + self._cluster.interval / MESSAGES_A_HEARTBEAT
        if self.alive and self._meter is not None:
            data = self._meter.message(now)
            self._cluster.tell(self.address, {"op": STREAM_OP, "data": data})

    def _metrics(self) -> dict[str, Any]:
        used = self.state.nbytes
        return {
            "bandwidth": {"total": self.bandwidth, "workers": {}, "types": {}},
            "digests_total_since_heartbeat": {},
            "memory": used,
            "spilled_bytes": {"memory": 0, "disk": 0},
            "task_counts": {},
            "event_loop_interval": 0.02,
            "managed_bytes": used,
            "transfer": {
                "incoming_bytes": self.state.transfer_incoming_bytes,
                "incoming_count": self.state.transfer_incoming_count,
                "incoming_count_total": self.state.transfer_incoming_count_total,
                "outgoing_bytes": 0,
                "outgoing_count": 0,
                "outgoing_count_total": 0,
            },
            "cpu": 0.0,
        }
