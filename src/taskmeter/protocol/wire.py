"""Reports and parcels as bytes, so that nothing in them can upset the message they are in."""

from __future__ import annotations

from typing import Any

import msgpack

from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.report import Report, ReportError
from taskmeter.protocol.report import from_plain as report_from_plain
from taskmeter.protocol.report import to_plain as report_plain
from taskmeter.protocol.samples_delta import Parcel
from taskmeter.protocol.samples_delta import from_plain as parcel_from_plain
from taskmeter.protocol.samples_delta import to_plain as parcel_plain
from taskmeter.snapshots.progress import Progress
from taskmeter.snapshots.snapshot import Snapshot


def pack(report: Report) -> bytes:
    """Return a report as bytes; names may hold any characters, lone surrogates included."""
    return _bytes(report_plain(report))


def unpack(data: Any) -> Report:
    """Make the report that `pack` was called on.

    Raises
    ------
    ReportError
        If it cannot be read, or has another protocol number.
    """
    return report_from_plain(_plain(data, "garbled report"))


def pack_parcel(parcel: Parcel) -> bytes:
    """Return a parcel as bytes."""
    return _bytes(parcel_plain(parcel))


def unpack_parcel(data: Any) -> Parcel:
    """Make the parcel that `pack_parcel` was called on.

    Raises
    ------
    ReportError
        If it cannot be read, or has another protocol number.
    """
    return parcel_from_plain(_plain(data, "garbled parcel"))


def pack_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as bytes, its distributions in their compact form."""
    return _bytes(snapshot.to_dict(Distribution.to_bytes))


def unpack_snapshot(data: Any) -> Snapshot:
    """Make the snapshot that `pack_snapshot` was called on.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    return Snapshot.from_dict(_plain(data, "garbled snapshot"))


def pack_progress(progress: Progress) -> bytes:
    """Return the progress of some work as bytes."""
    return _bytes(progress.to_dict())


def unpack_progress(data: Any) -> Progress:
    """Make the progress that `pack_progress` was called on.

    Raises
    ------
    ValueError
        If it cannot be read.
    """
    return Progress.from_dict(_plain(data, "garbled progress"))


def _bytes(plain: Any) -> bytes:
    packed: bytes = msgpack.packb(plain, unicode_errors="surrogatepass")
    return packed


def _plain(data: Any, problem: str) -> Any:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ReportError(problem)
    try:
        return msgpack.unpackb(
            data, use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
        )
    except Exception as error:
        raise ReportError(problem) from error
