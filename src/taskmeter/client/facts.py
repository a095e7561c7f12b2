"""Where a report's figures come from: the source, and the versions there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from distributed import Client
from distributed.versions import get_versions

from taskmeter.version import __version__
from taskmeter.views.html.facts import Facts

#: Where the figures of Dask's local schedulers come from.
LOCAL_SOURCE = "Dask's local schedulers in this process"


def local_versions() -> dict[str, str]:
    """Return the versions that a report on this process names."""
    return {"taskmeter here": __version__, **named(get_versions())}


async def facts_async(client: Client, title: str) -> Facts:
    """Return what `facts` returns."""
    versions = {"taskmeter here": __version__}
    with suppress(Exception):
        versions.update(named(await client.scheduler.versions()))
    return Facts(title=title, source=client.scheduler.address, versions=versions)


def facts(client: Client, title: str) -> Facts:
    """Return what a report says of a client's cluster; no versions if it does not answer."""
    found: Facts = client.sync(facts_async, client, title)
    return found


def named(found: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Return those of Dask's versions that matter, by name."""
    host, packages = found["host"], found["packages"]
    wanted = {name: packages.get(name) for name in ("distributed", "dask", "numpy", "pandas")}
    every = {
        **wanted,
        "Python": str(host.get("python", "")).removesuffix(".final.0"),
        "system": " ".join(str(host.get(part, "")) for part in ("OS", "OS-release", "machine")),
    }
    return {name: str(version) for name, version in every.items() if version}
