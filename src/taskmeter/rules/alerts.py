"""Alerts on the metrics, and the rule file."""

from __future__ import annotations

from dataclasses import dataclass

from taskmeter.catalogue.promql import expand, quantile
from taskmeter.rules.recordings import record, recordings
from taskmeter.rules.rule import Alert, Group, as_yaml


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Limits beyond which the alerts fire.

    Parameters
    ----------
    stuck_times
        An attempt is stuck when it is this many times older than 99 % of its prefix took,
    stuck_seconds
        and at least this old;
    longest_seconds
        or this old, whatever others took.
    stalled_times
        An attempt that stands still is stalled when it is this many times older than 99 % of its
        prefix took,
    stalled_seconds
        and at least this old: tasks that are meant to wait are as old as their kind.
    no_progress_minutes
        Tasks run, and none has ended for this long.
    failed_ratio
        Share of a prefix's attempts that fail.
    wasted_ratio
        Share of compute seconds that is thrown away.
    loop_turn_seconds
        taskmeter's longest turns of the scheduler's event loop.
    saturated_ratio, idle_ratio
        Utilisation above and below which a cluster is too small and too large.
    """

    stuck_times: float = 10.0
    stuck_seconds: float = 900.0
    longest_seconds: float = 21_600.0
    stalled_times: float = 3.0
    stalled_seconds: float = 300.0
    no_progress_minutes: int = 60
    failed_ratio: float = 0.1
    wasted_ratio: float = 0.2
    loop_turn_seconds: float = 0.05
    saturated_ratio: float = 0.95
    idle_ratio: float = 0.05


_PREFIX = "{{ $labels.task_prefix_name }}"
_WHERE = "on {{ $labels.instance }}"

#: States of tasks that have a thread, or could use one.
_READY = '{state=~"queued|no-worker|processing"}'


def _tasks(limits: Thresholds, namespace: str) -> tuple[Alert, ...]:
    age = record("prefix:*_oldest_attempt:age_seconds", namespace)
    p99 = record("prefix:*_duration_seconds:p99", namespace)
    failed = record("prefix:*_failed:ratio_rate30m", namespace)
    return (
        Alert(
            alert="DaskTaskStuck",
            expr=(
                f"(\n"
                f"  {age} > {limits.stuck_times:.12g} * {p99}\n"
                f"  and {age} > {limits.stuck_seconds:.12g}\n"
                f")\n"
                f"or {age} > {limits.longest_seconds:.12g}"
            ),
            lasting="2m",
            severity="warning",
            summary=f"A task {_PREFIX} has been running for {{{{ $value | humanizeDuration }}}}",
            description=(
                f"The oldest attempt of {_PREFIX} {_WHERE} is {{{{ $value | humanizeDuration }}}} "
                f"old: more than {limits.stuck_times:g} times what 99 % of its kind took, or more "
                f"than {limits.longest_seconds / 3600:g} h."
            ),
            runbook=(
                "taskmeter top ADDRESS shows which prefixes have old attempts, taskmeter snapshot "
                "ADDRESS --stalled those whose CPU clock stands still, with the line they are at. "
                "Client.call_stack() shows the whole stack; Client.cancel() and a restart of its "
                "worker end it."
            ),
        ),
        Alert(
            alert="DaskTaskStalled",
            expr=(
                expand("<stalled> > 0", namespace)
                + f"\nand {age} > {limits.stalled_times:.12g} * {p99}"
                + f"\nand {age} > {limits.stalled_seconds:.12g}"
            ),
            lasting="2m",
            severity="warning",
            summary=f"Tasks {_PREFIX} hang without using the CPU ({{{{ $value }}}})",
            description=(
                f"Attempts of {_PREFIX} {_WHERE} hold threads while their CPU clocks stand still, "
                f"and the oldest is more than {limits.stalled_times:g} times as old as 99 % of its "
                "kind took: they wait for something outside of Dask, for a lock, or for ever."
            ),
            runbook=(
                "taskmeter snapshot ADDRESS --stalled lists them with the line of code that each "
                "of them waits at. Client.cancel() and a restart of their worker end them."
            ),
        ),
        Alert(
            alert="DaskNoProgress",
            expr=expand(
                "sum without (task_prefix_name) (<executing>) > 0\n"
                "and sum without (outcome) (increase(<cluster_attempts_total>[5m])) == 0",
                namespace,
            ),
            lasting=f"{limits.no_progress_minutes}m",
            severity="warning",
            summary=f"No task has ended {_WHERE} for {limits.no_progress_minutes} minutes",
            description=(
                f"Tasks are running {_WHERE} ({{{{ $value }}}}), but none has ended, well or not, "
                f"for {limits.no_progress_minutes} minutes."
            ),
            runbook=(
                "taskmeter top ADDRESS shows what is running and for how long. If tasks of this "
                "length are usual here, write the rules with a higher --no-progress-minutes."
            ),
        ),
        Alert(
            alert="DaskTasksFail",
            expr=(
                f"{failed} > {limits.failed_ratio:.12g}\n"
                + expand(
                    "and sum without (outcome) (increase(<attempts_total>[30m])) >= 10", namespace
                )
            ),
            lasting="5m",
            severity="warning",
            summary=f"{{{{ $value | humanizePercentage }}}} of the tasks {_PREFIX} fail",
            description=(
                f"{{{{ $value | humanizePercentage }}}} of the attempts of {_PREFIX} {_WHERE} that "
                f"ended in the last 30 minutes raised an exception; retries count each time."
            ),
            runbook=(
                "The exceptions are in the logs of the workers and in Future.exception(). Retries "
                "hide them from results, not from the bill: taskmeter snapshot ADDRESS shows what "
                "they cost."
            ),
        ),
    )


def _capacity(limits: Thresholds, namespace: str) -> tuple[Alert, ...]:
    wasted = record("cluster:*_wasted:ratio_rate1h", namespace)
    wasted_rate = record("cluster:*_wasted:rate1h", namespace)
    utilisation = record("cluster:*_utilisation:ratio_rate5m", namespace)
    return (
        Alert(
            alert="DaskWorkWasted",
            # less than a minute of work is not worth the alert
            expr=f"{wasted} > {limits.wasted_ratio:.12g}\nand {wasted_rate} * 3600 > 60",
            lasting="10m",
            severity="warning",
            summary=f"{{{{ $value | humanizePercentage }}}} of the work {_WHERE} is thrown away",
            description=(
                f"{{{{ $value | humanizePercentage }}}} of the compute seconds of attempts that "
                f"ended {_WHERE} in the last hour made nothing: they failed, were cancelled, "
                "rescheduled or lost with their worker, or made a lost result again."
            ),
            runbook=(
                "The dashboard taskmeter: waste and idleness has it by outcome and prefix. Lost "
                "and made again: workers die, often for want of memory. Failed: see DaskTasksFail."
            ),
        ),
        Alert(
            alert="DaskClusterSaturated",
            # a task that runs, or has seceded, is processing for the scheduler; without the setting
            # taskmeter.occupancy there are no states, and the second part says nothing
            expr=f"{utilisation} > {limits.saturated_ratio:.12g}\n"
            + expand(
                "unless\n"
                "  sum without (task_prefix_name, state) "
                f"(rate(<task_state_seconds_total>{_READY}[5m]))\n"
                "  - sum without (task_prefix_name) (rate(<seceded_seconds_total>[5m]))\n"
                "  < 1.1 * rate(<thread_seconds_total>[5m])",
                namespace,
            ),
            lasting="30m",
            severity="info",
            summary=f"All threads {_WHERE} are busy, and tasks wait for them",
            description=(
                f"Tasks have kept {{{{ $value | humanizePercentage }}}} of the threads {_WHERE} "
                "busy for half an hour, and others waited: more workers would make this faster."
            ),
            runbook="Scale the cluster, or let it adapt: cluster.adapt(maximum=...).",
        ),
        Alert(
            alert="DaskClusterIdle",
            expr=f"{utilisation} < {limits.idle_ratio:.12g}",
            lasting="1h",
            severity="info",
            summary=f"Hardly any thread {_WHERE} is busy",
            description=(
                f"Tasks have kept {{{{ $value | humanizePercentage }}}} of the threads {_WHERE} "
                "busy for an hour: the cluster is paid for and does nothing."
            ),
            runbook=(
                "The dashboard taskmeter: waste and idleness tells why threads idle. With no-task, "
                "nobody needs the cluster: close it, or let it adapt: cluster.adapt(minimum=0)."
            ),
        ),
    )


def _itself(limits: Thresholds, namespace: str) -> tuple[Alert, ...]:
    return (
        Alert(
            alert="TaskmeterErrors",
            # a place has no series before its first error, so increase() would not see that one
            expr=expand(
                "<errors_total> - (<errors_total> offset 15m or <errors_total> * 0) > 0", namespace
            ),
            lasting="0m",
            severity="warning",
            summary=f"taskmeter has errors in {{{{ $labels.where }}}} {_WHERE}",
            description=(
                f"taskmeter contained errors in {{{{ $labels.where }}}} {_WHERE} in the last 15 "
                "minutes ({{ $value }}). Dask is not affected; figures may be missing."
            ),
            runbook=(
                "The first error of each place is in the scheduler's or a worker's log. taskmeter "
                "doctor ADDRESS says more; please report what is not your own doing."
            ),
        ),
        Alert(
            alert="TaskmeterHoldsTheLoop",
            expr=expand(
                f"(\n{quantile('0.99', 'loop_turn_seconds', '', '5m', 'without ()')}\n) "
                f"> {limits.loop_turn_seconds:.12g}",
                namespace,
            ),
            lasting="10m",
            severity="warning",
            summary=f"taskmeter's {{{{ $labels.part }}}} holds the event loop {_WHERE}",
            description=(
                f"1 % of the turns that {{{{ $labels.part }}}} takes of the event loop {_WHERE} "
                "last longer than {{ $value | humanizeDuration }}. The scheduler does nothing else "
                "meanwhile."
            ),
            runbook=(
                "Set taskmeter.durations to off if it is the estimates, scrape less often if it is "
                "the scrape, close pages if it is the page; and please report it."
            ),
        ),
        Alert(
            alert="TaskmeterWorkersUnmetered",
            expr=expand('<workers>{metered="no"} > 0', namespace),
            lasting="5m",
            severity="warning",
            summary=f"Workers {_WHERE} are not metered ({{{{ $value }}}})",
            description=(
                f"Workers {_WHERE} do not report by themselves ({{{{ $value }}}}): taskmeter is "
                "not there, or one of another protocol. Their figures are estimates."
            ),
            runbook=(
                "taskmeter doctor ADDRESS names them and says what to do: most often, install "
                "the scheduler's version of taskmeter where the workers run."
            ),
        ),
        Alert(
            alert="TaskmeterVersionsDiffer",
            expr=expand(
                '<workers>{metered="yes"} > 0\nunless on (job, instance, version) <build_info>',
                namespace,
            ),
            lasting="15m",
            severity="info",
            summary=f"Workers {_WHERE} have another version of taskmeter than the scheduler",
            description=(
                f"Workers {_WHERE} ({{{{ $value }}}}) run taskmeter {{{{ $labels.version }}}}, "
                "which is not the scheduler's. They are metered, but may lack what is new."
            ),
            runbook="Install the same version everywhere; taskmeter doctor ADDRESS names them.",
        ),
    )


def groups(namespace: str, limits: Thresholds) -> tuple[Group, ...]:
    """Return all rules: what is recorded, and what is an alert.

    Parameters
    ----------
    namespace
        What metric names begin with.
    limits
        When alerts fire.
    """
    alerts = (
        *_tasks(limits, namespace),
        *_capacity(limits, namespace),
        *_itself(limits, namespace),
    )
    # one group: its rules are evaluated in order, so that alerts see what was just recorded
    return (Group(name="taskmeter", rules=(*recordings(namespace), *alerts)),)


def rule_file(namespace: str, limits: Thresholds, comment: str) -> str:
    """Return the text of the rule file; `comment` stands at its top."""
    return as_yaml(groups(namespace, limits), comment)
