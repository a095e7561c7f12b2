"""Names that taskmeter's parts on the scheduler, the workers and clients know each other by."""

from __future__ import annotations

from typing import Final

#: The scheduler's metadata in which it announces itself, for `Client.get_metadata`.
METADATA_KEY: Final = "taskmeter"

#: The topic of its events, for `Client.get_events` and `Client.subscribe_topic`.
EVENT_TOPIC: Final = "taskmeter"

# The scheduler's handlers, which clients call.

#: Return a snapshot.
SNAPSHOT_OP: Final = "taskmeter_snapshot"

#: Return what happened since an instant, as moments.
HISTORY_OP: Final = "taskmeter_history"

#: Return what is new since a recorder looked last.
NEWS_OP: Final = "taskmeter_news"

#: Remove taskmeter from the cluster.
UNINSTALL_OP: Final = "taskmeter_uninstall"

#: Return how far chosen tasks are.
PROGRESS_OP: Final = "taskmeter_progress"

#: Return which attempts of chosen tasks are late.
LATE_OP: Final = "taskmeter_late"

#: Return which copies of a task may run, and which workers its result had better take.
SETTLE_OP: Final = "taskmeter_settle"

# Annotations of tasks.

#: How long attempts of its prefix take, by what somebody says.
DURATION_ANNOTATION: Final = "taskmeter_duration"

#: How long an attempt may run, and what then.
TIMEOUT_ANNOTATION: Final = "taskmeter_timeout"

# Between the scheduler and its workers.

#: The worker's handler that has it tell what it has not told yet, on the ordered stream.
FLUSH_OP: Final = "taskmeter_flush"

#: The scheduler's stream handler that takes a worker's messages. A scheduler closes a worker that
#: sends a name it does not know, so the name stays when the format of the messages changes.
STREAM_OP: Final = "taskmeter-report"

#: The heartbeat extension of releases before 0.2. A scheduler closes a worker whose heartbeat has
#: one that it does not know, so it stays there and does nothing.
EXTENSION: Final = "taskmeter"

#: The plugin of the scheduler.
SCHEDULER_PLUGIN: Final = "taskmeter"

#: The plugin that the scheduler sends to workers, and the one that it sets up there.
LOADER: Final = "taskmeter-loader"
METER: Final = "taskmeter"

# In a client.

#: The client's extension that keeps its hedged futures.
HEDGING_EXTENSION: Final = "taskmeter-hedging"
