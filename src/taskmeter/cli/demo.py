"""``taskmeter demo``: a real Dask workload, watched while it runs."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path
from typing import IO

import click

from taskmeter.cli.local_cluster import Target, metered
from taskmeter.cli.options import dashboard_address_option, lenient, refusing
from taskmeter.cli.run import print_report
from taskmeter.client.connect import Refusal, silence_dask
from taskmeter.demo.flights import data_file
from taskmeter.views.terminal.live import display


@click.command()
@click.option("--fast", is_flag=True, help="Take a part of the flights: a few seconds.")
@dashboard_address_option
@refusing
def demo(*, fast: bool, dashboard_address: str) -> None:
    """Run a real workload and see what its tasks cost.

    It asks which airlines, airports and planes were late, and why, in the 336,776 flights that
    left New York in 2013: joined with tables of planes and of weather, with a shuffle, with a
    function that is slow on purpose and one that fails and is tried again. That takes less than a
    minute on two processes of two threads.

    \b
        pip install 'taskmeter[demo]'
        taskmeter demo
    """  # noqa: D301 (\b keeps click from filling the lines)
    demonstrate(lenient(sys.stdout), fast=fast, dashboard_address=dashboard_address)


def demonstrate(out: IO[str], *, fast: bool, dashboard_address: str) -> None:
    """Run the demo on two processes of two threads.

    Parameters
    ----------
    out
        Where everything is shown.
    fast
        Take a part of the flights.
    dashboard_address
        Where the cluster serves its dashboard and metrics.

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
        answers = answer_all(client, Path(directory), FAST if fast else WHOLE, say)
        observed = watch.end()
        silence_dask()
        shown.close()
    for answer in answers:
        say(f"\n{answer.question}\n{answer.table.to_string()}")
    print_report(out, observed, title="taskmeter: what that cost")
    say("\nNext: taskmeter run script.py does the same for a program of yours.")
