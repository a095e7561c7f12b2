"""Takes snapshots of what a program computes on, while it runs in the main thread."""

from __future__ import annotations

import sqlite3
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from distributed import Client, default_client

from taskmeter.client.connect import Refusal, ask, page_url, read
from taskmeter.client.facts import LOCAL_SOURCE, local_versions
from taskmeter.client.history import Course
from taskmeter.client.recording import start_recording, write_recording
from taskmeter.history.moment import Moment, between
from taskmeter.history.news import News
from taskmeter.history.recorder import Recorder
from taskmeter.plugins.local.meter import LocalMeter
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.views.html.facts import Facts
from taskmeter.views.terminal.live import Display

#: A snapshot is taken this often.
REFRESH_SECONDS = 1.0

#: The program may make a cluster at any time, and not keep it for long.
DISCOVERY_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCluster:
    """What one cluster, or Dask's local schedulers in this process, did while they were watched.

    Parameters
    ----------
    address
        Its scheduler; `LOCAL_SOURCE` of those in this process.
    snapshot
        What happened there since the watch began.
    exact
        The snapshot is of the end; if not, the cluster went away before.
    own
        The program made it; it is not the one that the watch was given.
    moments
        The timeline of the same period.
    recording
        Where it was recorded; None if it was not.
    """

    address: str
    snapshot: Snapshot
    exact: bool
    own: bool
    moments: tuple[Moment, ...] = ()
    recording: Path | None = None


class _Cluster:
    """A cluster, read through a client that may be the program's."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._course: Course | None = None
        self._recorder: Recorder | None = None
        self.recording: Path | None = None

    def record(self, path: Path, base: Snapshot | None) -> None:
        """Record what is younger than a snapshot."""
        title = f"taskmeter run: what ran on {self.client.scheduler.address}"
        self._recorder = start_recording(self.client, path, title=title, base=base)
        self.recording = path

    def end(self) -> None:
        """End the recording, if there is one."""
        if self._recorder is not None:
            self._recorder.stop()

    def snapshot(self) -> Snapshot:
        return read(self.client)

    def moments(self, since: float) -> tuple[Moment, ...]:
        if self._course is None:
            self._course = Course(since)
        ask(self.client, self._course.update)
        return self._course.moments


class _Followed:
    """A cluster, or this process."""

    def __init__(
        self, address: str, source: _Cluster | LocalMeter, *, own: bool, since: float
    ) -> None:
        self.address = address
        self.source = source
        self.own = own
        first = source.snapshot()
        # All that a cluster did which is younger than the watch belongs to the program.
        self.base = None if first.start >= since else first
        self.latest = first if self.base is None else first.since(self.base)
        self.earlier: Snapshot | None = None
        self._moments: tuple[Moment, ...] = ()

    def look(self) -> None:
        now = self.source.snapshot()
        self.earlier = self.latest
        self.latest = now if self.base is None else now.since(self.base)
        self._moments = self.source.moments(self.latest.start)

    def observed(self) -> ObservedCluster:
        exact = True
        try:
            self.look()
        except Refusal:
            exact = False
        return ObservedCluster(
            address=self.address,
            snapshot=self.latest,
            exact=exact,
            own=self.own,
            moments=between(self._moments, self.latest.start, self.latest.at),
            recording=self.source.recording if isinstance(self.source, _Cluster) else None,
        )


class Watch:
    """Takes a snapshot every second in a thread of its own, and has it shown.

    It follows the program: to the cluster of its default client, if it makes one of its own, and to
    Dask's local schedulers.

    Parameters
    ----------
    client
        Of the cluster that the program was given; nobody else may close it. None if it was given
        none.
    display
        Shows it.
    local
        Knows what Dask's local schedulers run.
    record
        Gives the file to record a cluster into, by its client; None to record none.
    """

    def __init__(
        self,
        client: Client | None,
        display: Display,
        local: LocalMeter,
        record: Callable[[Client | None], Path] | None = None,
    ) -> None:
        self._display = display
        self._record = record
        self._began = time.time()
        #: {scheduler address: cluster}, in the order of discovery
        self._clusters: dict[str, _Followed] = {}
        self._invisible: set[str] = set()
        if client is not None:
            self._follow(client, own=False)
        else:
            display.say(f"taskmeter: {LOCAL_SOURCE}")
        #: taken now where nothing else is recorded, so that a refusal comes before the work
        self._local_path = record(None) if record is not None and client is None else None
        self._clusters[LOCAL_SOURCE] = _Followed(
            LOCAL_SOURCE, local, own=client is not None, since=self._began
        )
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="taskmeter watch", daemon=True)
        self._thread.start()

    def _follow(self, client: Client, *, own: bool) -> None:
        address: str = client.scheduler.address
        source = _Cluster(client)
        followed = _Followed(address, source, own=own, since=self._began)
        if self._record is not None:
            source.record(self._record(client), followed.base)
        self._clusters[address] = followed
        url = page_url(client, "taskmeter/metrics")
        if url is not None:
            self._display.say(f"taskmeter: metrics at {url}")

    def _run(self) -> None:
        next_look = time.monotonic() + REFRESH_SECONDS
        while not self._ending.wait(DISCOVERY_SECONDS):
            # A view that fails must not disturb what it shows; the figures come from `end`.
            with suppress(Exception, CancelledError):
                self._discover()
                if time.monotonic() >= next_look:
                    next_look = time.monotonic() + REFRESH_SECONDS
                    self._look()

    def _discover(self) -> None:
        """Note the cluster to which the program's work goes now."""
        client = _default_client()
        if client is None or client.scheduler.address in self._invisible:
            return
        address = client.scheduler.address
        known = self._clusters.get(address)
        if known is None:
            try:
                self._follow(client, own=True)
            except Refusal as refusal:
                self._invisible.add(address)
                self._display.say(f"taskmeter: {refusal}")
        elif known.own and isinstance(known.source, _Cluster):
            # The client through which it was seen until now may be closed.
            known.source.client = client

    def _look(self) -> None:
        for cluster in self._clusters.values():
            with suppress(Refusal):
                cluster.look()
        given, *others = self._clusters.values()
        own = [cluster for cluster in others if cluster.latest.prefixes]
        shown = own[-1] if own and not given.latest.executing else given
        self._display.show(shown.latest, shown.earlier)

    def end(self) -> tuple[ObservedCluster, ...]:
        """Stop, and return the clusters on which something ran."""
        self._ending.set()
        self._thread.join()
        with suppress(Exception, CancelledError):
            self._discover()
        observed = [cluster.observed() for cluster in self._clusters.values()]
        for cluster in self._clusters.values():
            if isinstance(cluster.source, _Cluster):
                cluster.source.end()
        used = [cluster for cluster in observed if cluster.snapshot.prefixes]
        return tuple(map(self._written, used))

    def _written(self, observed: ObservedCluster) -> ObservedCluster:
        """Write the recording of this process, which is made at the end."""
        if self._record is None or observed.address != LOCAL_SOURCE:
            return observed
        snapshot = observed.snapshot
        news = News(moments=observed.moments, ended=snapshot.ended, snapshot=snapshot)
        about = Facts(title="taskmeter run", source=LOCAL_SOURCE, versions=local_versions())
        try:
            path = self._local_path or self._record(None)
            write_recording(path, news, about)
        except (Refusal, OSError, sqlite3.Error) as error:
            self._display.say(f"taskmeter: {error}")
            return observed
        return replace(observed, recording=path)


def _default_client() -> Client | None:
    """Return the client to which the program's work goes now, if it is connected."""
    try:
        client = default_client()
    except ValueError:
        return None
    return client if client.status == "running" and client.scheduler is not None else None
