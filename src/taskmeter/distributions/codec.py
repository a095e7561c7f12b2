"""Distributions as JSON-able values and as compact bytes, and back, checked."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from taskmeter.distributions.exact_sums import SQUARES_BITS, SUM_BITS, trailing_zeros
from taskmeter.distributions.grid import (
    MAX_BUCKETS,
    MAX_SCHEMA,
    MIN_SCHEMA,
    SMALLEST_NORMAL,
    index_of,
)
from taskmeter.distributions.summarise import Fields

if TYPE_CHECKING:
    from taskmeter.distributions.distribution import Distribution

_MAGIC: Final = b"tmD1"
#: magic, schema, width of a count (with `_SPARSE`), offset, buckets, counts that follow, count,
#: zeros, invalid, minimum, maximum, log sum, log squares
_HEADER: Final = struct.Struct("<4sbBiHHQQQdddd")
#: a whole number: trailing zeros left out, then length of its bytes
_NUMBER: Final = struct.Struct("<HH")
_CHECKSUM: Final = struct.Struct("<I")
#: set when only the buckets in use are listed: their places (uint16), then their counts
_SPARSE: Final = 0x80


def to_bytes(d: Distribution) -> bytes:
    """Return `Distribution.to_bytes`."""
    used = np.flatnonzero(d.counts)
    width = _width(int(d.counts.max(initial=0)))
    sparse = used.size * (2 + width) < d.counts.size * width
    listed = d.counts[used] if sparse else d.counts
    header = _HEADER.pack(
        _MAGIC,
        d.schema,
        width | (_SPARSE if sparse else 0),
        d.offset,
        d.counts.size,
        listed.size,
        d.count,
        d.zero_count,
        d.invalid,
        d.minimum,
        d.maximum,
        d.log_sum,
        d.log_squares,
    )
    body = b"".join(
        [
            header,
            _number(d.exact_sum),
            _number(d.exact_squares),
            used.astype("<u2").tobytes() if sparse else b"",
            listed.astype(f"<u{width}").tobytes(),
        ]
    )
    return body + _CHECKSUM.pack(zlib.crc32(body))


def from_bytes(data: bytes) -> Fields:
    """Undo `to_bytes`; ``ValueError`` for anything else."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        # bytes() of a number would be so many zeros
        raise ValueError("a distribution is read from bytes")  # noqa: TRY004 (documented)
    data = bytes(data)
    if len(data) < _HEADER.size + _CHECKSUM.size or not data.startswith(_MAGIC):
        raise ValueError("these bytes are not a distribution")
    body, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    if _CHECKSUM.unpack(checksum)[0] != zlib.crc32(body):
        raise ValueError("the bytes of this distribution are damaged: their checksum is wrong")
    try:
        return checked(_unpacked(body))
    except (struct.error, IndexError) as error:
        raise ValueError(f"the bytes of this distribution are cut short: {error}") from error


def _unpacked(body: bytes) -> Fields:
    _, schema, kind, offset, size, listed, *numbers = _HEADER.unpack_from(body)
    count, zeros, invalid, least, most, log_sum, log_squares = numbers
    width = kind & ~_SPARSE
    total, at = _read_number(body, _HEADER.size)
    squares, at = _read_number(body, at)
    sparse = kind & _SPARSE
    expected = listed * (width + (2 if sparse else 0))
    if width not in {1, 2, 4, 8} or len(body) - at != expected or not (sparse or listed == size):
        raise ValueError("the bytes of this distribution have the wrong length")
    counts = np.zeros(size, dtype=np.int64)
    place: Any = slice(None)
    if sparse:
        place = np.frombuffer(body, "<u2", listed, at)
        at += place.nbytes
    counts[place] = np.frombuffer(body, f"<u{width}", listed, at)
    return {
        "schema": schema,
        "count": count,
        "zero_count": zeros,
        "invalid": invalid,
        "minimum": least,
        "maximum": most,
        "exact_sum": total,
        "exact_squares": squares,
        "log_sum": log_sum,
        "log_squares": log_squares,
        "offset": offset,
        "counts": counts,
    }


def _width(largest: int) -> int:
    return next(width for width in (1, 2, 4, 8) if largest < 1 << (8 * width))


def _number(number: int) -> bytes:
    zeros = trailing_zeros(number)
    number >>= zeros
    raw = number.to_bytes((number.bit_length() + 7) // 8, "little")
    return _NUMBER.pack(zeros, len(raw)) + raw


def _read_number(body: bytes, at: int) -> tuple[int, int]:
    zeros, length = _NUMBER.unpack_from(body, at)
    at += _NUMBER.size
    return int.from_bytes(body[at : at + length], "little") << zeros, at + length


def to_dict(d: Distribution) -> dict[str, Any]:
    """Return `Distribution.to_dict`."""
    return {
        "schema": d.schema,
        "count": d.count,
        "zero_count": d.zero_count,
        "invalid": d.invalid,
        "minimum": None if isnan(d.minimum) else d.minimum,
        "maximum": None if isnan(d.maximum) else d.maximum,
        # for those who read it elsewhere; from_dict needs only the exact sums
        "sum": d.sum if isfinite(d.sum) else None,
        "exact_sum": _text(d.exact_sum, SUM_BITS),
        "exact_squares": _text(d.exact_squares, SQUARES_BITS),
        "log_sum": d.log_sum,
        "log_squares": d.log_squares,
        "offset": d.offset,
        "counts": d.counts.tolist(),
    }


def from_dict(data: Mapping[str, Any]) -> Fields:
    """Undo `to_dict`; ``ValueError`` for anything else."""
    try:
        fields: Fields = {
            "schema": int(data["schema"]),
            "count": int(data["count"]),
            "zero_count": int(data["zero_count"]),
            "invalid": int(data["invalid"]),
            "minimum": nan if data["minimum"] is None else float(data["minimum"]),
            "maximum": nan if data["maximum"] is None else float(data["maximum"]),
            "exact_sum": _from_text(data["exact_sum"], SUM_BITS),
            "exact_squares": _from_text(data["exact_squares"], SQUARES_BITS),
            "log_sum": float(data["log_sum"]),
            "log_squares": float(data["log_squares"]),
            "offset": int(data["offset"]),
            "counts": np.array(data["counts"], dtype=np.int64).reshape(-1),
        }
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"this is not the dict of a distribution: {error!r}") from error
    return checked(fields)


def _text(number: int, bits: int) -> str:
    """Return ``number * 2**-bits`` as hexadecimal digits and a power of two, such as ``0x3p-4``."""
    zeros = trailing_zeros(number)
    return f"{number >> zeros:#x}p{zeros - bits}"


def _from_text(text: str, bits: int) -> int:
    digits, _, power = text.partition("p")
    shift = int(power) + bits
    if not 0 <= shift <= 2 * SQUARES_BITS:
        raise ValueError(f"the power of two of {text[:40]!r} is out of range")
    return int(digits, 16) << shift


def checked(fields: Fields) -> Fields:
    """Return ``fields`` back if they are those of some sample, else raise ``ValueError``."""
    problem = _numbers_problem(fields) or _buckets_problem(fields) or _sums_problem(fields)
    if problem:
        raise ValueError(f"this is not a distribution: {problem}")
    return fields


def _numbers_problem(f: Fields) -> str:
    if not MIN_SCHEMA <= f["schema"] <= MAX_SCHEMA:
        return f"schema {f['schema']} is not in {MIN_SCHEMA} ... {MAX_SCHEMA}"
    if min(f["count"], f["zero_count"], f["invalid"], f["count"] - f["zero_count"]) < 0:
        return "a count is negative, or there are more zeros than values"
    if not (isfinite(f["log_sum"]) and isfinite(f["log_squares"])):
        return "a sum of logarithms is not finite"
    if not f["count"]:
        blank = isnan(f["minimum"]) and isnan(f["maximum"])
        return "" if blank and not f["counts"].size else "it has no values, but extremes or buckets"
    if not 0 <= f["minimum"] <= f["maximum"] < inf:
        return "minimum and maximum are not in order, or not finite"
    return ""


def _buckets_problem(f: Fields) -> str:
    counts, last = f["counts"], f["offset"] + f["counts"].size - 1
    if sum(counts.tolist()) + f["zero_count"] != f["count"]:
        return "its buckets do not add up to its count"
    if counts.size > MAX_BUCKETS or counts.min(initial=0) < 0:
        return f"it has more than {MAX_BUCKETS} buckets, or a negative one"
    if counts.size and not (counts[0] and counts[-1]):
        return "its first or last bucket is empty"
    if f["count"] and (f["zero_count"] > 0) != (f["minimum"] == 0):
        return "its minimum and its number of zeros contradict each other"
    if f["count"] and not (
        _holds(f["maximum"], last if counts.size else None, f["schema"])
        and (f["zero_count"] or _holds(f["minimum"], f["offset"], f["schema"]))
    ):
        return "its minimum or maximum is not in its outermost bucket"
    return ""


def _holds(value: float, index: int | None, schema: int) -> bool:
    if value == 0 or index is None:
        return value == 0 and index is None
    # buckets below the smallest normal float are rounded together
    return value < SMALLEST_NORMAL or index_of(value, schema) == index


def _sums_problem(f: Fields) -> str:
    count, total, squares = f["count"], f["exact_sum"], f["exact_squares"]
    if not count:
        return "it has no values, but sums" if total or squares else ""
    least, most = (_units(x) for x in (f["minimum"], f["maximum"]))
    if not count * least <= total <= count * most:
        return "its mean is not between minimum and maximum"
    # Cauchy and Schwarz's inequality: no sample has a negative variance
    if count * squares < total * total:
        return "its sum of squares is too small"
    return "its sum of squares is too large" if squares > total * most else ""


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << SUM_BITS) // denominator
