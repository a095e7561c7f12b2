"""Runs a Python file as Python itself would, in a process that goes on afterwards."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, TracebackType

from distributed import Client

from taskmeter.client.connect import Refusal

_INTERRUPTED = 130


class Script:
    """A Python file, read and ready to run.

    Parameters
    ----------
    path
        The file.
    args
        What it finds in ``sys.argv`` after its name.

    Raises
    ------
    Refusal
        If the file cannot be read.
    """

    def __init__(self, path: Path, args: Sequence[str] = ()) -> None:
        try:
            self._source = path.read_bytes()
        except OSError as error:
            raise Refusal(
                f"Cannot read the script {str(path)!r}: {(error.strerror or str(error)).lower()}."
            ) from error
        self.path = path
        self.args = tuple(args)
        #: as Python has it in ``__file__`` and in tracebacks
        self.file = str(path.absolute())

    @property
    def makes_own_cluster(self) -> bool:
        """Whether it calls Client with arguments for a LocalCluster, such as ``n_workers``."""
        own = set(inspect.signature(Client).parameters)
        return any(
            isinstance(node, ast.Call)
            and _name(node.func) == "Client"
            and not node.args
            and any(keyword.arg not in own for keyword in node.keywords)
            for node in ast.walk(self._tree())
        )

    @property
    def is_importable(self) -> bool:
        """Whether it has an ``if __name__ == "__main__"``, so that importing it is harmless."""
        return any(
            isinstance(node, ast.If)
            and any(_name(part) == "__name__" for part in ast.walk(node.test))
            for node in self._tree().body
        )

    def _tree(self) -> ast.Module:
        try:
            return ast.parse(self._source)
        except (SyntaxError, ValueError):
            # Running it will say so, with a traceback.
            return ast.Module(body=[], type_ignores=[])

    @contextmanager
    def arguments(self) -> Iterator[None]:
        """Make ``sys.argv`` and ``sys.path`` those of the script, for this process and new ones."""
        argv, path = sys.argv[:], sys.path[:]
        sys.argv[:] = [str(self.path), *self.args]
        sys.path.insert(0, str(Path(self.file).parent))
        try:
            yield
        finally:
            sys.argv[:], sys.path[:] = argv, path

    @contextmanager
    def main_module(self) -> Iterator[ModuleType]:
        """Return the module that is ``__main__`` for the script, in place of this program's own.

        A worker process that Dask starts anew imports what is ``__main__`` here. That would run a
        script a second time, unless it does its work under ``if __name__ == "__main__"``; for one
        that does not, the module's name tells the new process to leave it alone.
        """
        module = ModuleType("__main__")
        module.__file__ = self.file
        if not self.is_importable:
            module.__spec__ = ModuleSpec("__main__", None, origin=self.file)
        before = sys.modules["__main__"]
        sys.modules["__main__"] = module
        try:
            yield module
        finally:
            sys.modules["__main__"] = before

    def execute(self, module: ModuleType) -> tuple[int, BaseException | None]:
        """Run it, in the thread that calls.

        Returns
        -------
        tuple
            The exit code, as Python's own would be, and the error that ended it, whose traceback
            holds the script's frames only; None if there was no error.
        """
        try:
            exec(compile(self._source, self.file, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 (to run a script is what this is for)
        except SystemExit as stop:
            return _exit_code(stop), None
        except BaseException as error:  # noqa: BLE001 (the report comes all the same)
            code = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
            return code, error.with_traceback(self._own_frames(error.__traceback__))
        return 0, None

    def _own_frames(self, trace: TracebackType | None) -> TracebackType | None:
        while trace is not None and trace.tb_frame.f_code.co_filename != self.file:
            trace = trace.tb_next
        return trace


def _name(node: ast.AST) -> str | None:
    """Return the last name of ``a.b.name`` or ``name``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _exit_code(stop: SystemExit) -> int:
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code
    sys.stderr.write(f"{stop.code}\n")
    return 1
