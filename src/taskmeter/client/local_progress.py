"""Progress of what Dask's local schedulers compute inside a ``with`` block."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import ExitStack
from types import TracebackType

from rich.live import Live

from taskmeter.plugins.local.meter import LocalMeter
from taskmeter.snapshots.progress import Bars, PrefixProgress, Progress
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.text import terminal_safe
from taskmeter.views.tables.bars import Look, bars_view, headline
from taskmeter.views.terminal.tables import console

#: Interval between two lines where the output is not a terminal.
LINE_SECONDS = 5.0


class LocalProgress:
    """Shows how far what is computed inside is, and how long it will still take.

    Parameters
    ----------
    interval
        Seconds between two looks.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._meter = LocalMeter()
        self._bars = Bars(chosen=False)
        # what it counts from
        self._bars.add(Progress())
        self._begun = time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="taskmeter progress", daemon=True)

    def __repr__(self) -> str:
        return "<progress of what Dask computes in this process: use it as a with statement>"

    def __enter__(self) -> LocalProgress:
        self._meter.__enter__()
        self._begun = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()
        with self._meter:
            failure = "" if kind is None else terminal_safe(f"{kind.__name__}: {error}")
            look = self._look(self._meter.snapshot(), failure=failure, finished=True)
        paper = console(sys.stdout)
        if paper.is_terminal:
            paper.print(bars_view(look))
        else:
            paper.print(headline(look), soft_wrap=True)

    def _run(self) -> None:
        paper = console(sys.stdout)
        with ExitStack() as stack:
            live = None
            if paper.is_terminal:
                # what is shown last stays, below what the program prints
                live = stack.enter_context(Live(console=paper, auto_refresh=False, transient=True))
            said = time.monotonic()
            while not self._ending.wait(self._interval):
                look = self._look(self._meter.snapshot())
                if live is not None:
                    live.update(bars_view(look), refresh=True)
                elif time.monotonic() - said >= LINE_SECONDS:
                    said = time.monotonic()
                    paper.print(headline(look), soft_wrap=True)

    def _look(self, snapshot: Snapshot, *, failure: str = "", finished: bool = False) -> Look:
        progress = Progress(
            prefixes={
                name: PrefixProgress(
                    left=0 if finished and not failure else sum(stats.states.values()),
                    done=stats.attempts["ok"].count,
                    expected_seconds=None if stats.expected is None else stats.expected.seconds,
                )
                for name, stats in snapshot.prefixes.items()
            },
            remaining=snapshot.remaining,
        )
        return Look(
            bars=self._bars.add(progress),
            remaining=progress.remaining,
            elapsed_seconds=time.monotonic() - self._begun,
            failure=failure,
            finished=finished,
        )
