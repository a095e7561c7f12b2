"""A dictionary of a million keys that never takes long to grow."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final, Generic, TypeVar

V = TypeVar("V")

_SHARDS: Final = 64


class ShardedDict(Generic[V]):
    """A mapping kept in 64 dictionaries, so that a resize moves a 64th of it.

    One dictionary takes 50 to 100 ms to grow beyond a million keys, and to be copied.
    """

    __slots__ = ("_shards",)

    def __init__(self) -> None:
        self._shards: list[dict[Hashable, V]] = [{} for _ in range(_SHARDS)]

    def __len__(self) -> int:
        """Return how many keys there are."""
        return sum(map(len, self._shards))

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a key is there."""
        return key in self._shards[hash(key) % _SHARDS]

    def __getitem__(self, key: Hashable) -> V:
        """Return the value of a key that is there."""
        return self._shards[hash(key) % _SHARDS][key]

    def __setitem__(self, key: Hashable, value: V) -> None:
        """Set the value of a key."""
        self._shards[hash(key) % _SHARDS][key] = value

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, or None."""
        return self._shards[hash(key) % _SHARDS].get(key)

    def pop(self, key: Hashable) -> V | None:
        """Remove a key; return its value, or None."""
        return self._shards[hash(key) % _SHARDS].pop(key, None)

    def __iter__(self) -> Iterator[Hashable]:
        """Iterate over the keys; they may change meanwhile, and those that come may be missed."""
        for shard in self._shards:
            yield from tuple(shard)
