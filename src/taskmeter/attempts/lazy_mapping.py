"""A mapping whose values are made when somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class LazyMapping(Mapping[KeyT, ValueT]):
    """Makes each value once, when it is read; equal to the dict of all of them, and pickled as it.

    Parameters
    ----------
    parts
        ``{key: what `make` is given}``
    make
        Makes the value of a key.
    """

    __slots__ = ("_make", "_parts", "_values")

    def __init__(self, parts: Mapping[KeyT, tuple[Any, ...]], make: Callable[..., ValueT]) -> None:
        self._parts = parts
        self._make = make
        self._values: dict[KeyT, ValueT] = {}

    def __getitem__(self, key: KeyT) -> ValueT:
        try:
            return self._values[key]
        except KeyError:
            value = self._values[key] = self._make(*self._parts[key])
            return value

    def __iter__(self) -> Iterator[KeyT]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, key: object) -> bool:
        return key in self._parts

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return dict, (dict(self),)
