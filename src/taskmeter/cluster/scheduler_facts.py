"""What the scheduler itself knows of tasks and workers, handed to the account for a snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from taskmeter.distributions.distribution import Distribution
from taskmeter.estimation.transfer_model import TransferModel
from taskmeter.snapshots.expected import Expected, LateAttempt, Remaining


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFacts:
    """What the scheduler itself knows, and no worker can tell.

    Parameters
    ----------
    errors
        Contained errors.
    state_seconds, states
        ``{prefix: {state: task seconds}}`` and ``{prefix: {state: tasks}}``.
    recomputed
        ``{prefix: seconds of results that were computed again}``.
    worker_state_seconds, worker_states
        ``{state: worker seconds}`` and ``{state: workers}``.
    worker_versions, workers_joined, workers_left
        As in `Snapshot`.
    expected, late_total
        ``{prefix: what is expected of it}`` and ``{prefix: late attempts so far}``.
    late, remaining
        As in `Snapshot`.
    loop_turns
        As in `Snapshot`.
    transfer_model
        As in `Transfers`.
    price_per_thread_hour
        As in `Snapshot`.
    """

    errors: Mapping[str, int] = field(default_factory=dict)
    state_seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    states: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    recomputed: Mapping[str, float] = field(default_factory=dict)
    worker_state_seconds: Mapping[str, float] = field(default_factory=dict)
    worker_states: Mapping[str, int] = field(default_factory=dict)
    worker_versions: Mapping[str, int] = field(default_factory=dict)
    workers_joined: int = 0
    workers_left: Mapping[str, int] = field(default_factory=dict)
    expected: Mapping[str, Expected] = field(default_factory=dict)
    late_total: Mapping[str, int] = field(default_factory=dict)
    late: tuple[LateAttempt, ...] = ()
    remaining: Remaining | None = None
    loop_turns: Mapping[str, Distribution] = field(default_factory=dict)
    transfer_model: TransferModel | None = None
    price_per_thread_hour: float | None = None
