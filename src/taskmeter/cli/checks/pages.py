"""Whether the pages with metrics can be read."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from distributed import Client

from taskmeter.cli.checks.finding import FAIL, OK, Finding
from taskmeter.cli.checks.servers import ANSWER_SECONDS
from taskmeter.client.connect import page_url

#: A family that is on each of taskmeter's pages, whatever ran.
_FAMILY = "taskmeter_compute_seconds_total"


def pages(client: Client) -> Iterable[Finding]:
    """Yield whether taskmeter's page of metrics can be read from here, and what Dask's has."""
    url = page_url(client, "taskmeter/metrics")
    if url is None:
        yield Finding(
            status=FAIL,
            what="metrics",
            says="the scheduler has no HTTP server; start it without --no-dashboard",
        )
        return
    text, why = _fetch(url)
    if _FAMILY not in text:
        yield Finding(
            status=FAIL,
            what="metrics",
            says=f"{url} cannot be read from here: {why}; Prometheus needs a way to it",
        )
        return
    families = sum(line.startswith("# TYPE ") for line in text.splitlines())
    yield Finding(status=OK, what="metrics", says=f"{url} ({families} families)")
    dasks = page_url(client, "metrics")
    joined = _FAMILY in _fetch(str(dasks))[0]
    says = (
        "has taskmeter's families too: let Prometheus scrape one of the two pages, not both"
        if joined
        else "is without them: scrape the page above"
    )
    yield Finding(status=OK, what="Dask's metrics", says=f"{dasks} {says}")


def _fetch(url: str) -> tuple[str, str]:
    """Return a page, or nothing and why there is nothing."""
    # Whether Prometheus trusts the certificate is its configuration's affair; here only the page
    # matters. And the scheduler is reached directly, so its page is too.
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=trusting))
    try:
        with opener.open(url, timeout=ANSWER_SECONDS) as page:
            return page.read().decode("utf-8", "replace"), "taskmeter is not on it"
    except HTTPError as error:
        return "", f"HTTP status {error.code}"
    except (OSError, ValueError) as error:
        return "", str(getattr(error, "reason", None) or error)
