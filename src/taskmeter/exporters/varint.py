"""Variable-length whole numbers of protocol buffers: seven bits a byte, the lowest first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskmeter.distributions.grid import Ints

_ONE_BYTE = tuple(number.to_bytes(1, "little") for number in range(0x80))


def varint(number: int) -> bytes:
    """Return a number that is not negative."""
    if number < 0x80:
        return _ONE_BYTE[number]
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> int:
    """Return 0, 1, 2, 3, 4 for 0, -1, 1, -2, 2, as the types ``sint32`` and ``sint64`` have it."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def zigzags(numbers: Ints) -> NDArray[np.uint64]:
    """Return what `zigzag` gives, for an array."""
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def lengths(numbers: NDArray[np.uint64]) -> Ints:
    """Return how many bytes each number takes."""
    found = np.ones(numbers.shape, dtype=np.int64)
    for byte in range(1, (int(numbers.max(initial=0)).bit_length() + 6) // 7):
        found += numbers >= np.uint64(1 << (7 * byte))
    return found


def varints(numbers: NDArray[np.uint64]) -> tuple[bytes, Ints]:
    """Return many numbers end to end.

    Returns
    -------
    encoded, ends
        The bytes, and where in them each number ends.
    """
    sizes = lengths(numbers)
    ends = np.cumsum(sizes)
    starts = ends - sizes
    out = np.zeros(int(sizes.sum()), dtype=np.uint8)
    for byte in range(int(sizes.max(initial=0))):
        these = np.flatnonzero(sizes > byte) if byte else slice(None)
        bits = (numbers[these] >> np.uint64(7 * byte)) & np.uint64(0x7F)
        more = (sizes[these] > byte + 1).astype(np.uint64) << np.uint64(7)
        out[starts[these] + byte] = bits | more
    return out.tobytes(), ends
