"""No signature of the public API says Any, which would switch a user's type checker off."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import pytest

import taskmeter

#: What is JSON has values of any kind.
JSON = {"from_dict", "to_dict"}


def callables() -> Iterator[tuple[str, Callable[..., object]]]:
    """Return the functions, and the methods and properties of the classes, of the public API."""
    for name in taskmeter.__all__:
        public = getattr(taskmeter, name)
        if inspect.isfunction(public):
            yield name, public
        elif inspect.isclass(public):
            yield from methods(public)


def methods(public: type) -> Iterator[tuple[str, Callable[..., object]]]:
    special = {"__init__", "__enter__", "__exit__", "__aenter__", "__aexit__"}
    for name, member in vars(public).items():
        method = (
            member.fget
            if isinstance(member, property)
            else inspect.unwrap(getattr(member, "__func__", member))
        )
        if inspect.isfunction(method) and (not name.startswith("_") or name in special):
            yield f"{public.__name__}.{name}", method


@pytest.mark.parametrize(("name", "function"), list(callables()))
def test_every_parameter_and_result_has_a_type_that_is_not_any(
    name: str, function: Callable[..., object]
) -> None:
    signature = inspect.signature(function)
    said = [p.annotation for p in signature.parameters.values() if p.name not in {"self", "cls"}]
    for annotation in (*said, signature.return_annotation):
        assert annotation is not inspect.Signature.empty
        if name.partition(".")[2] not in JSON:
            assert "Any" not in str(annotation).replace("[", " ").replace("]", " ").split()
