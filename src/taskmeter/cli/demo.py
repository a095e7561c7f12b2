"""``taskmeter demo``: a real Dask workload, watched while it runs."""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from distributed import Client

from taskmeter.cli.local_cluster import Target, metered, on_signal
from taskmeter.cli.options import (
    dashboard_address_option,
    force_option,
    lenient,
    refusing,
    report_option,
)
from taskmeter.cli.output_files import check_writable
from taskmeter.cli.run import print_report, write_reports
from taskmeter.client.connect import Refusal, page_url, silence_dask
from taskmeter.demo.flights import data_file
from taskmeter.views.terminal.live import display

if TYPE_CHECKING:
    from taskmeter.demo.workload import Answer

#: A signal is noticed so soon on systems where waiting cannot be interrupted.
_TICK_SECONDS = 0.5


@click.command()
@click.option("--fast", is_flag=True, help="Take a part of the flights: a few seconds.")
@report_option
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the cluster and its dashboard when the work is done, until Ctrl-C.",
)
@dashboard_address_option
@force_option
@refusing
def demo(
    *, fast: bool, report_path: Path | None, keep: bool, dashboard_address: str, force: bool
) -> None:
    """Run a real workload and see what its tasks cost.

    It asks which airlines, airports and planes were late, and why, in the 336,776 flights that
    left New York in 2013: joined with tables of planes and of weather, with a shuffle, with a
    function that is slow on purpose and one that fails and is tried again. That takes less than a
    minute on two processes of two threads.

    \b
        pip install 'taskmeter[demo]'
        taskmeter demo
        taskmeter demo --report demo.html
        taskmeter demo --keep

    It begins with the address of its live dashboard.
    """  # noqa: D301 (\b keeps click from filling the lines)
    if report_path is not None:
        check_writable(report_path, force=force)
    out = lenient(sys.stdout)
    work = _workload(fast=fast)

    def say(text: str) -> None:
        out.write(text + "\n")
        out.flush()

    # The failures are part of the show; their tracebacks are not.
    target = Target(
        workers=2, threads=2, dashboard_address=dashboard_address, log_level=logging.CRITICAL
    )
    shown = display(out)
    with (
        tempfile.TemporaryDirectory(prefix="taskmeter-demo-") as directory,
        metered(target, shown) as (client, watch),
    ):
        dashboard = page_url(client, "taskmeter") if find_spec("bokeh") else None
        if dashboard is not None:
            shown.say(f"taskmeter: dashboard at {dashboard}")
        answers = work(client, Path(directory), say)
        observed = watch.end()
        silence_dask()
        shown.close()
        for answer in answers:
            say(f"\n{answer.question}\n{answer.table.to_string()}")
        title = "taskmeter: what that cost"
        print_report(out, observed, title=title)
        if report_path is not None:
            write_reports(report_path, observed, title, out, force=force)
        say("\nNext: taskmeter run script.py does the same for a program of yours.")
        if keep:
            _look_around(client.scheduler.address, dashboard, say)


def _workload(*, fast: bool) -> Callable[[Client, Path, Callable[[str], None]], list[Answer]]:
    """Return what asks all questions.

    Raises
    ------
    Refusal
        If the data or pandas is missing.
    """
    data_file("flights.csv.zip")
    try:
        # pandas and dask.dataframe are an extra, which only this needs
        from taskmeter.demo.workload import FAST, WHOLE, answer_all  # noqa: PLC0415
    except ImportError as error:
        raise Refusal(
            f"The demo needs Dask's data frames ({error}); get them with: "
            "pip install 'taskmeter[demo]'"
        ) from error
    size = FAST if fast else WHOLE
    return lambda client, directory, say: answer_all(client, directory, size, say)


def _look_around(address: str, dashboard: str | None, say: Callable[[str], None]) -> None:
    """Wait for Ctrl-C."""
    ended = threading.Event()
    with (
        on_signal(signal.SIGINT, lambda *_: ended.set()),
        on_signal(signal.SIGTERM, lambda *_: ended.set()),
    ):
        say(f"\nThe cluster stays for looking around, until Ctrl-C:\n  taskmeter top {address}")
        if dashboard is not None:
            say(f"  {dashboard}")
        while not ended.wait(_TICK_SECONDS):
            pass
