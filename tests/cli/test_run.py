"""``taskmeter run`` and ``taskmeter demo`` as a person meets them: real processes."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import BIN, RUN, execute, reported, script

# Run


@pytest.mark.smoke
def test_a_script_runs_as_python_would_run_it(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import sys
        import dask
        from naps import nap

        @dask.delayed
        def double(x):
            return 2 * nap(x)

        print(__name__, __file__, sys.argv)
        print(sum(dask.compute(*[double(i) for i in range(6)])))
        print("to stderr", file=sys.stderr)
        """,
    )
    result = execute(*RUN, path.name, "--workers", "9", "-x", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"__main__ {path} ['script.py', '--workers', '9', '-x']",
        "30",
    ]
    said = result.stderr.splitlines()
    assert re.fullmatch(r"taskmeter: metrics at http://127\.0\.0\.1:\d+/taskmeter/metrics", said[0])
    assert said[1] == "to stderr"
    assert reported(result.stderr, "double")["ok"] == "6"


def test_a_script_without_a_cluster_computes_in_this_process(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os
        import dask
        from naps import nap

        @dask.delayed
        def double(x):
            nap(0.2)
            return 2 * x, os.getpid()

        results, processes = zip(*dask.compute(*[double(i) for i in range(6)]))
        print(sum(results), set(processes) == {os.getpid()})
        raise SystemExit(3)
        """,
    )
    options = ("--scheduler", "threads", "--threads", "2", "--report", "run.html")
    result = execute("run", *options, path.name, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (3, "30 True\n"), result.stderr
    assert re.search(r"of 2 \| 1 worker", result.stderr)
    assert reported(result.stderr, "double")["ok"] == "6"
    assert "double" in (tmp_path / "run.html").read_text("utf-8")


def test_what_a_script_computes_beside_its_cluster_is_shown_too(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import dask
        from naps import nap

        for name in ("threads", None):
            dask.delayed(nap)(0.1, dask_key_name=f"on-{name}").compute(scheduler=name)
        """,
    )
    result = execute(*RUN, path.name, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "by Dask's local schedulers in this process" in result.stderr
    assert result.stderr.index("on-None") < result.stderr.index("on-threads")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--local", "--scheduler", "tcp://127.0.0.1:1"), "--local starts no cluster"),
        (("--local", "--workers", "2", "--threads", "2"), "there is one pool"),
    ],
)
def test_options_that_exclude_each_other_are_refused(tmp_path: Path, options, sentence) -> None:
    path = script(tmp_path, "print(1)")
    result = execute("run", *options, path.name, cwd=tmp_path)
    assert result.returncode != 0
    assert sentence in result.stderr


def test_the_metrics_are_there_while_the_script_runs(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import re, time, urllib.request
        from distributed import Client
        from naps import nap

        client = Client()  # finds the cluster that is there
        client.gather(client.map(nap, range(3)))
        future = client.submit(nap, -1, seconds=60)
        dashboard = client.scheduler_info()["services"]["dashboard"]
        deadline = time.monotonic() + 20
        while True:
            url = f"http://127.0.0.1:{dashboard}/taskmeter/metrics"
            text = urllib.request.urlopen(url).read().decode()
            if re.search(r'executing{task_prefix_name="nap"} 1(\\.0)?$', text, re.MULTILINE):
                break
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        print(len(client.scheduler_info()["workers"]), "worker")
        """,
    )
    result = execute(*RUN, "--quiet", path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "1 worker\n"
    assert result.stderr.lstrip().startswith("taskmeter: what script.py ran")
    row = reported(result.stderr, "nap")
    assert (row["running"], row["ok"]) == ("1", "3")


def test_a_script_that_raises_has_its_own_traceback_and_still_a_report(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import dask
        from naps import nap

        def mean(values):
            return sum(values) / len(values)

        print(dask.compute(dask.delayed(nap)(1)))
        mean([])
        """,
    )
    result = execute(*RUN, path, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stdout == "(1,)\n"
    trace = result.stderr[result.stderr.index("Traceback") : result.stderr.index("taskmeter: what")]
    files = re.findall(r'File "([^"]+)", line (\d+)', trace)
    assert files == [(str(path), "9"), (str(path), "6")]
    assert trace.rstrip().endswith("ZeroDivisionError: division by zero")
    assert reported(result.stderr, "nap")["ok"] == "1"


def test_a_script_with_a_syntax_error_says_where(tmp_path: Path) -> None:
    result = execute(*RUN, script(tmp_path, "print('a'\n"), cwd=tmp_path)
    assert result.returncode == 1
    assert "SyntaxError" in result.stderr
    assert "taskmeter/script.py" not in result.stderr
    assert "no task ran" in result.stderr


def test_sys_exit_and_the_restart_of_a_worker_are_as_in_python(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import sys
        from pathlib import Path
        from distributed import get_client
        from naps import nap

        # There is no "if __name__ ..." here, so a second run of this would be seen.
        with Path("runs").open("a") as runs:
            runs.write("run\\n")
        client = get_client()
        print(client.submit(nap, 1).result())
        client.restart()
        print(client.submit(nap, 2).result())
        sys.exit(7)
        """,
    )
    result = execute(*RUN, path, cwd=tmp_path)
    assert result.returncode == 7, result.stderr
    assert result.stdout == "1\n2\n"
    assert (tmp_path / "runs").read_text() == "run\n"
    assert "nap" in result.stderr


def test_a_cluster_that_the_script_makes_for_itself_is_shown(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        from distributed import Client
        from naps import nap

        client = Client(n_workers=1, threads_per_worker=3, processes=False, dashboard_address=":0")
        print(sum(client.gather(client.map(nap, range(9)))))
        """,
    )
    result = execute(*RUN, path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "36\n"
    assert "ran on its own cluster" in result.stderr
    assert re.search(r"of 3 \| 1 worker", result.stderr)
    assert reported(result.stderr, "nap")["ok"] == "9"


def test_a_cluster_that_the_script_closes_is_reported_as_it_was_last_seen(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        from distributed import Client, LocalCluster
        from naps import nap

        cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False,
                               dashboard_address=":0")
        with cluster, Client(cluster) as client:
            print(client.submit(nap, 1, seconds=2.5).result())
        """,
    )
    result = execute(*RUN, "--quiet", path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "1\n"
    assert reported(result.stderr, "nap")
    last = result.stderr.splitlines()[-1]
    assert last == "This cluster was gone before the end: the figures may be a second old."


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.02)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let child processes notice Ctrl-C, even if this one was started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_on_a_terminal_a_panel_shows_what_runs_and_ctrl_c_ends_it(
    tmp_path: Path, ctrl_c: None
) -> None:
    path = script(
        tmp_path,
        """
        import dask
        from naps import nap

        print("[bold]as it is[/bold]", end=" and ", flush=True)
        dask.compute(dask.delayed(nap)(1, seconds=600))
        """,
    )
    reader, writer = pty.openpty()
    with (
        subprocess.Popen(
            [BIN / "taskmeter", *RUN, path],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=writer,
            env={**os.environ, "TERM": "xterm-256color", "LINES": "40", "COLUMNS": "100"},
        ) as running,
        ending(running),
    ):
        seen: list[bytes] = []
        _resize(writer, 40, 100)
        os.close(writer)
        follower = threading.Thread(target=_follow, args=(reader, seen), daemon=True)
        follower.start()

        def text() -> str:
            return b"".join(seen).decode(errors="replace")

        wait_for(lambda: "[bold]as it is[/bold] and " in text(), "the script's own output")
        wait_for(lambda: re.search(r"nap +1 ", text()) is not None, "the panel")
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 130
        follower.join(10)
    after = text()[text().rindex("\x1b[r") :]
    assert "KeyboardInterrupt" in after
    assert "what script.py ran" in after
    os.close(reader)


@contextmanager
def ending(running: subprocess.Popen[bytes]) -> Iterator[None]:
    """End a process, whatever happens."""
    try:
        yield
    finally:
        running.kill()


def _resize(fd: int, lines: int, columns: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def _follow(reader: int, seen: list[bytes]) -> None:
    try:
        while data := os.read(reader, 65536):
            seen.append(data)
    except OSError:
        return  # the other end was closed


# Demo


DEMO = ("demo", "--fast", "--dashboard-address", "127.0.0.1:0")


@pytest.mark.smoke
def test_the_demo_runs_and_shows_answers_and_costs(tmp_path: Path) -> None:
    result = execute(*DEMO, "--report", "demo.html", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    text = result.stdout
    assert "taskmeter: metrics at http://127.0.0.1:" in text
    dashboard = re.search(
        r"^taskmeter: dashboard at http://127\.0\.0\.1:\d+/taskmeter$", text, re.MULTILINE
    )
    assert dashboard is not None
    assert dashboard.start() < text.index("Reading the flights")
    assert "taskmeter: wrote demo.html" in text
    assert "measure_row_by_row" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    for question in ("Are old planes late?", "Where does one arrive late?"):
        assert question in text
    # 16 airlines: every request fails once and is tried again
    row = reported(text, "ask_archive")
    assert (row["ok"], row["failed"]) == ("16", "16")
    assert "measure_row_by_row" in text
    assert "hash-join-transfer" in text
    assert "Traceback" not in text + result.stderr
    assert result.stderr == ""


def test_the_demo_stays_for_looking_around_until_ctrl_c(tmp_path: Path) -> None:
    with subprocess.Popen(
        [BIN / "taskmeter", *DEMO, "--keep"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as demo:  # fmt: skip
        limit = threading.Timer(100, demo.kill)
        limit.start()
        try:
            assert demo.stdout is not None
            lines = []
            for line in demo.stdout:
                lines.append(line.strip())
                if re.fullmatch(r"http://127\.0\.0\.1:\d+/taskmeter", lines[-1]):
                    break
            url = lines[-1]
            assert lines[-3].endswith("until Ctrl-C:")
            assert "measure_row_by_row" in "\n".join(lines)
            with urllib.request.urlopen(url, timeout=10) as page:
                assert page.status == 200
            command = lines[-2].split()
            assert reported(
                execute(*command[1:], "--count", "1", cwd=tmp_path).stdout, "measure_row_by_row"
            )
            demo.send_signal(signal.SIGINT)
            rest = demo.stdout.read()
            assert (demo.wait(30), rest) == (0, "")
        finally:
            limit.cancel()
            demo.kill()
