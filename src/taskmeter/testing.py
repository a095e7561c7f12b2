"""A real Prometheus for tests and benchmarks: what it scrapes is what users will see."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any


class PrometheusServer:
    """A Prometheus server process with storage of its own, gone at the end of the ``with`` block.

    Parameters
    ----------
    targets
        ``host:port`` of what to scrape.
    interval_seconds
        Time between two scrapes.
    path
        What to scrape there.
    features
        Values for ``--enable-feature``.
    rules
        The text of a rule file; empty for none.
    jobs
        More of what stands under ``scrape_configs``; they scrape the same targets.
    storage
        A folder with blocks that are there already; None for an empty one of its own.

    Raises
    ------
    RuntimeError
        If Prometheus is not installed (``apt-get install prometheus``) or does not start.
    """

    def __init__(
        self,
        targets: Collection[str],
        *,
        interval_seconds: float = 1.0,
        path: str = "/metrics",
        features: Collection[str] = (),
        rules: str = "",
        jobs: Collection[Mapping[str, Any]] = (),
        storage: Path | None = None,
    ) -> None:
        self.targets = list(targets)
        self.interval_seconds = interval_seconds
        self.path = path
        self.features = features
        self.rules = rules
        self.jobs = jobs
        self.storage = storage

    def __enter__(self) -> PrometheusServer:
        program = shutil.which("prometheus")
        if program is None:
            raise RuntimeError(
                "This needs a real Prometheus: apt-get install prometheus, then try again."
            )
        self._folder = tempfile.TemporaryDirectory(prefix="taskmeter-prometheus-")
        folder = Path(self._folder.name)
        (folder / "prometheus.yml").write_text(json.dumps(self._configuration()))
        (folder / "rules.yml").write_text(self.rules, encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(  # noqa: S603 (the program that was just looked up)
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.storage or folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                *([f"--enable-feature={','.join(self.features)}"] if self.features else []),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        try:
            self._wait_until_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def _configuration(self) -> dict[str, Any]:
        milliseconds = round(self.interval_seconds * 1000)
        where = {"static_configs": [{"targets": self.targets}]}
        return {
            "global": {
                "scrape_interval": f"{milliseconds}ms",
                "scrape_timeout": f"{milliseconds}ms",
                "evaluation_interval": f"{milliseconds}ms",
            },
            "rule_files": ["rules.yml"] if self.rules else [],
            "scrape_configs": [
                {"job_name": "dask", "metrics_path": self.path, **where},
                *({**job, **where} for job in self.jobs),
            ],
        }

    def _wait_until_ready(self, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):  # noqa: S310 (our own server)
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"Prometheus did not start:\n{self.log()[-2000:]}")

    def log(self) -> str:
        """Return what Prometheus has logged."""
        self._log.flush()
        return Path(self._log.name).read_text(errors="replace")

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """Evaluate PromQL at one instant.

        Returns
        -------
        list
            ``[{"metric": {label: value}, "value": [time, "number"]}]``
        """
        parameters = {"query": expression} | ({} if at is None else {"time": f"{at:.3f}"})
        return self._get("query", parameters)

    def query_range(
        self, expression: str, start: float, stop: float, step: float
    ) -> list[dict[str, Any]]:
        """Evaluate PromQL at instants `step` seconds apart.

        Returns
        -------
        list
            ``[{"metric": {label: value}, "values": [[time, "number"], ...]}]``
        """
        return self._get(
            "query_range",
            {"query": expression, "start": f"{start:.3f}", "end": f"{stop:.3f}", "step": f"{step}"},
        )

    def targets_up(self) -> int:
        """Return the number of targets whose last scrape went well."""
        return sum(float(row["value"][1]) == 1 for row in self.query("up"))

    def wait_until_up(self, timeout: float = 30.0) -> None:
        """Wait until every target was scraped well; Prometheus takes some seconds to begin.

        Raises
        ------
        TimeoutError
            If one was not.
        """
        deadline = time.monotonic() + timeout
        while self.targets_up() < len(self.targets) * (1 + len(self.jobs)):
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"Prometheus could not scrape {self.targets} in {timeout:g} s:\n"
                    f"{self.log()[-2000:]}"
                )
            time.sleep(0.1)

    def _get(self, what: str, parameters: dict[str, str]) -> list[dict[str, Any]]:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 (our own server)
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found
        except urllib.error.HTTPError as error:
            raise ValueError(
                f"Prometheus refused {parameters['query']!r}: {error.read()!r}"
            ) from error
