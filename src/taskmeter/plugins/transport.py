"""Reports as bytes, so that nothing in them can upset the heartbeat that carries them."""

from __future__ import annotations

from typing import Any

import msgpack

from taskmeter.core.report import Report, ReportError, from_plain, to_plain


def pack(report: Report) -> bytes:
    """Give a report as bytes; names may hold any characters, lone surrogates included."""
    packed: bytes = msgpack.packb(to_plain(report), unicode_errors="surrogatepass")
    return packed


def unpack(data: Any) -> Report:
    """Make the report that `pack` was called on.

    Raises
    ------
    ReportError
        If it cannot be read, or has another protocol number.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ReportError("garbled report")
    try:
        plain = msgpack.unpackb(
            data, use_list=False, strict_map_key=False, unicode_errors="surrogatepass"
        )
    except Exception as error:
        raise ReportError("garbled report") from error
    return from_plain(plain)
