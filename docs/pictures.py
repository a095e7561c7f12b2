"""Make the pictures of README and docs from the product, with the demo's work on a local cluster.

    python docs/pictures.py

Needs what "make test" installs: playwright and Debian's chromium.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster
from playwright.sync_api import sync_playwright

import taskmeter
from taskmeter.demo.workload import WHOLE, answer_all

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1440, "height": 1300}


def train(seconds: float) -> None:
    time.sleep(seconds)


def picture(browser: Any, url: str, name: str, wait_for: str) -> None:
    page = browser.new_page(viewport=SIZE)
    page.goto(url)
    page.locator(wait_for).first.wait_for()
    page.wait_for_timeout(5000)
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as cluster,
        Client(cluster) as client,
        sync_playwright() as started,
    ):
        taskmeter.install(client)
        with taskmeter.measure(client) as m:
            answer_all(client, Path(directory), WHOLE, print)
        report = Path(directory) / "report.html"
        m.report(report)
        running = client.map(train, [300.0, 301.0], key="train")
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        port = cluster.scheduler.http_server.port
        picture(browser, report.as_uri(), "report", "#prefixes")
        picture(browser, f"http://127.0.0.1:{port}/taskmeter", "dashboard-overview", ".slick-row")
        browser.close()
        del running


if __name__ == "__main__":
    main()
