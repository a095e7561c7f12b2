"""Connect to a scheduler, or say in one sentence why that fails."""

from __future__ import annotations

import logging
import socket
import struct
import time
import warnings
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

from distributed import Client
from distributed.comm import get_address_host, parse_address, registry, unparse_host_port
from distributed.security import Security
from distributed.utils import sync

from taskmeter.client.api import NotInstalled, snapshot_async
from taskmeter.protocol.names import METADATA_KEY
from taskmeter.snapshots.snapshot import Snapshot

T = TypeVar("T")

#: A scheduler that does not answer within this time counts as unreachable.
TIMEOUT_SECONDS = 5.0

#: A Dask server greets with the length of its handshake, which is never longer than this.
_LONGEST_HANDSHAKE = 1 << 20

_EXAMPLE = "The address of a scheduler looks like tcp://127.0.0.1:8786."


class Refusal(RuntimeError):  # noqa: N818 (it is not an error of the program)
    """A request that cannot be met; the message says in one sentence why, and what to do."""


def connect(address: str) -> Client:
    """Connect to a scheduler, without becoming the default client.

    Parameters
    ----------
    address
        The scheduler's, such as ``tcp://127.0.0.1:8786``.

    Raises
    ------
    Refusal
        If there is no scheduler that can be reached at this address.
    """
    # Never let a Client meet an address that does not work: it waits without a limit for the
    # handshake of a server that is not Dask's, and a failed one complains when it is deleted.
    scheme = _probe(address)
    if scheme == "tls" and not Security().get_connection_args("client").get("ssl_context"):
        raise Refusal(
            f"{address} wants TLS, for which nothing is configured: give --tls-ca-file, --tls-cert "
            "and --tls-key, or set distributed.comm.tls in Dask's configuration."
        )
    try:
        return Client(address, timeout=TIMEOUT_SECONDS, set_as_default=False)
    except Exception as error:
        raise Refusal(f"Cannot connect to a scheduler at {address}: {_reason(error)}.") from error


def read(client: Client) -> Snapshot:
    """Return a snapshot of a client's cluster; any client, from any thread but its own loop's.

    Raises
    ------
    Refusal
        If the cluster has no taskmeter, or has gone away.
    """
    return ask(client, snapshot_async)


def ask(client: Client, question: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Return what a coroutine function of a client returns, as `read` does.

    Raises
    ------
    Refusal
        As for `read`.
    """
    if client.status != "running":
        # Asking would wait for the scheduler to come back.
        raise Refusal("The scheduler went away.")
    address = client.scheduler.address
    try:
        answer: T = sync(client.loop, question, client, *args)
    except NotInstalled as error:
        raise Refusal(str(error)) from error
    except (OSError, CancelledError) as error:
        # Requests of a client that is being closed are cancelled.
        raise Refusal(f"The scheduler at {address} went away.") from error
    return answer


def read_complete(client: Client, *, patience: float) -> Snapshot:
    """Return a snapshot in which all workers report, or the last one when patience ends.

    Parameters
    ----------
    client
        Whose cluster.
    patience
        Seconds: a worker that has just begun sends its first report with its next heartbeat.

    Raises
    ------
    Refusal
        As for `read`.
    """
    deadline = time.monotonic() + patience
    while True:
        taken = read(client)
        if all(w.metered for w in taken.workers) or time.monotonic() > deadline:
            return taken
        time.sleep(0.05)


def announcement(client: Client) -> dict[str, Any] | None:
    """Return what taskmeter says of itself in the scheduler's metadata; None if it is not there."""
    question = client.scheduler.get_metadata
    announced = sync(client.loop, question, keys=[METADATA_KEY], default=None)
    return dict(announced) if isinstance(announced, Mapping) else None


def page_url(client: Client, page: str) -> str | None:
    """Return the address of a page on the scheduler's HTTP server; None if it has no server.

    Parameters
    ----------
    client
        Any client, from any thread but its own loop's.
    page
        Its path, without the slash at the beginning and without ``--dashboard-prefix``.
    """
    info: dict[str, Any] = client.scheduler_info(n_workers=0)
    port = info.get("services", {}).get("dashboard")
    if not port:
        return None
    pages = (announcement(client) or {}).get("pages") or {}
    address = client.scheduler.address
    host = "localhost" if address.startswith("inproc") else get_address_host(address)
    scheme, prefix = pages.get("scheme", "http"), pages.get("prefix", "/")
    return f"{scheme}://{unparse_host_port(host, port)}{prefix}{page}"


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress log messages and warnings, because a refusal says what matters.

    This affects the whole process: never use it around code of the user's.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def silence_dask() -> None:
    """Keep Dask's log messages off the terminal from here to the end of the process.

    A program may leave clients open and tasks unfinished, which log errors when their cluster is
    closed.
    """
    for name in ["distributed", "asyncio", *logging.root.manager.loggerDict]:
        if name.split(".")[0] in {"distributed", "asyncio"}:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _probe(address: str) -> str:
    """Return the scheme of an address; refuse one at which no scheduler answers."""
    host, port, scheme = _parts(address)
    if host is None:
        return scheme
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_SECONDS) as connection:
            # A TLS server waits for the client's greeting; all other Dask servers greet first.
            greets = scheme != "tcp" or _is_greeting(connection)
    except OSError as error:
        raise Refusal(
            f"Nothing answers at {address}: {_reason(error)}. Is the scheduler running?"
        ) from error
    if not greets:
        raise Refusal(
            f"What answers at {address} does not greet as a Dask scheduler does: it is none, or it "
            f"hangs, or it is one that wants tls://. {_EXAMPLE}"
        )
    return scheme


def _parts(address: str) -> tuple[str | None, int, str]:
    """Return host, port and scheme; no host if the scheme is not one of sockets."""
    if address.startswith("inproc://"):
        raise Refusal(f"{address} can be reached only from inside its own process.")
    if urlsplit(address).scheme in {"http", "https"}:
        raise Refusal(f"{address} is the address of a web page, not of a scheduler. {_EXAMPLE}")
    try:
        scheme, location = parse_address(address)
        backend = registry.get_backend(scheme)
        if scheme not in {"tcp", "tls"}:
            return None, 0, scheme
        host, port = backend.get_address_host_port(location)
    except ValueError as error:
        raise Refusal(f"{address!r} is not an address ({error}). {_EXAMPLE}") from error
    if not host or not 0 < port < 65536:
        raise Refusal(f"{address!r} is not an address. {_EXAMPLE}")
    return host, port, scheme


def _is_greeting(connection: socket.socket) -> bool:
    """Return whether a server greets as Dask servers do, with the length of its handshake."""
    try:
        head = connection.recv(8)
    except (TimeoutError, ConnectionError):
        return False
    return len(head) == 8 and 0 < struct.unpack("<Q", head)[0] < _LONGEST_HANDSHAKE


def _reason(error: BaseException) -> str:
    """Return the cause of an error in a few words."""
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_SECONDS:g} s"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error).rstrip(".") or type(error).__name__
