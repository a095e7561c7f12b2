"""What Dask keeps of an exception, made into a type, a message and a traceback of bounded size.

A task's exception is read from its ``repr`` and from the bytes of its pickle. It is never loaded:
that would run code of the user's.
"""

from __future__ import annotations

import ast
import pickletools
from itertools import islice
from typing import Final

from taskmeter.attempts.names import bounded
from taskmeter.text import shorten

MOST_MESSAGE: Final = 200
MOST_TRACEBACK: Final = 2_000

#: What is not known better.
UNKNOWN: Final = "Exception"

#: The class is named among the first of so many opcodes.
_MOST_OPCODES: Final = 60

#: Longer literals are not parsed.
_MOST_LITERAL: Final = 2_000

#: Packages whose functions rebuild exceptions; classes of these modules have no module name here.
_REBUILDING: Final = frozenset({"tblib", "cloudpickle", "copyreg"})
_PLAIN: Final = frozenset({"builtins", "__main__"})


def exception_name(text: str, pickled: bytes = b"") -> str:
    """Return the type of an exception, with its module where that is not built in.

    Parameters
    ----------
    text
        Its ``repr``, which most often begins with the name of its type.
    pickled
        Its pickle, which names the module.
    """
    head = text[: text.find("(")] if "(" in text[:_MOST_LITERAL] else text[:_MOST_LITERAL]
    named = head.isidentifier()
    for module, name in _globals(pickled):
        if name.rpartition(".")[2] == head or not named:
            return bounded(name if module in _PLAIN else f"{module}.{name}")
    return bounded(head) if named else UNKNOWN


def _globals(pickled: bytes) -> list[tuple[str, str]]:
    """Return the (module, name) of what a pickle first refers to, but for what rebuilds it."""
    strings: list[str] = []
    found = []
    try:
        for opcode, argument, _ in islice(pickletools.genops(pickled), _MOST_OPCODES):
            if opcode.name == "STACK_GLOBAL":
                module, name = strings[-2:]
                if module.partition(".")[0] not in _REBUILDING and name != "type":
                    found.append((module, name))
            elif isinstance(argument, str):
                strings.append(argument)
    except Exception:  # noqa: BLE001 (any bytes may come)
        return found
    return found


def exception_message(text: str) -> str:
    """Return the message of an exception by its ``repr``, on at most `MOST_MESSAGE` characters."""
    _, bracket, inner = text.partition("(")
    if not bracket or not text.endswith(")"):
        return shorten(text, MOST_MESSAGE)
    inner = inner[:-1].removesuffix(",")
    if inner[:1] in {"'", '"'} and len(inner) <= _MOST_LITERAL:
        try:
            value = ast.literal_eval(inner)
        except Exception:  # noqa: BLE001 (any text may come)
            value = None
        if isinstance(value, str):
            inner = value
    return shorten(inner, MOST_MESSAGE)


def other_message(exception: str, message: str) -> str:
    """Return the message of an exception whose type is not kept apart: it begins with the type."""
    return shorten(f"{exception}: {message}", MOST_MESSAGE)


def traceback_end(text: str) -> str:
    """Return the end of a traceback, where the error arose: at most `MOST_TRACEBACK` characters."""
    if len(text) <= MOST_TRACEBACK:
        return text
    return "..." + text[3 - MOST_TRACEBACK :]
