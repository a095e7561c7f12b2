"""The pages of ``taskmeter history --serve``: a table of runs, and the report of each."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click

from taskmeter.cli.output_files import reason
from taskmeter.client.connect import Refusal
from taskmeter.history.recording import NotARecording, Recording
from taskmeter.history.recording_paths import recordings
from taskmeter.history.runs import runs
from taskmeter.text import terminal_safe
from taskmeter.views.html.recording import page_of
from taskmeter.views.html.runs import runs_page


def serve(folder: Path, address: str) -> None:
    """Serve the recordings of a folder until Ctrl-C.

    Parameters
    ----------
    folder
        The folder.
    address
        ``HOST:PORT``; with port 0 a free one is taken.

    Raises
    ------
    Refusal
        If the address cannot be used.
    """
    try:
        parts = urlsplit(f"//{address}")
        host = parts.hostname or ""
        server = ThreadingHTTPServer((host, parts.port or 0), _handler(folder))
    except ValueError as error:
        raise Refusal(f"{address!r} is not an address such as 127.0.0.1:8788.") from error
    except OSError as error:
        raise Refusal(f"Cannot serve at {address}: {reason(error)}.") from error
    with server:
        url = f"http://{host or 'localhost'}:{server.server_port}/"
        click.echo(f"Serving {terminal_safe(str(folder))} at {url}; Ctrl-C ends it.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("")


def _handler(folder: Path) -> type[BaseHTTPRequestHandler]:
    """Return what answers requests: ``/`` is the table, ``/run/NAME`` the report of a recording."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            try:
                text = _page(folder, path)
            except (NotARecording, OSError) as error:
                self._answer(500, str(error), "text/plain")
                return
            if text is None:
                self._answer(404, "There is no such run.", "text/plain")
            else:
                self._answer(200, text, "text/html")

        def _answer(self, status: int, text: str, kind: str) -> None:
            body = text.encode("utf-8", "backslashreplace")
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing: a terminal is no log of requests."""

    return Handler


def _page(folder: Path, path: str) -> str | None:
    if path == "/":
        return runs_page(str(folder), runs(folder))
    name = path.removeprefix("/run/")
    # looked up, not joined: a name cannot lead out of the folder
    known = {str(p.relative_to(folder)): p for p in recordings(folder)}
    return page_of(Recording(known[name])) if path.startswith("/run/") and name in known else None
