"""What a client can tell of single tasks: how long they may run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import cast

import dask

from taskmeter.policies.timeouts import Limit
from taskmeter.protocol.names import TIMEOUT_ANNOTATION


def timeout(after: float | str | timedelta, *, then: str = "fail") -> AbstractContextManager[None]:
    """Limit how long an attempt of each task that is submitted in a ``with`` block may run.

    What counts is how long its code runs: waiting does not count, and a task that secedes has no
    limit any more. Python can end no thread: the function runs on until it returns, and its result
    is dropped.

    Parameters
    ----------
    after
        Seconds, a text such as ``"5 min"``, a `datetime.timedelta`, or ``"10x"`` for ten times the
        99th percentile of what completed of its prefix, once 30 have.
    then
        ``"fail"``: the task fails with a `TimeoutError`, after as many other attempts as it has
        retries. ``"retry"``: there is another attempt on another worker, once, and no failure.
        ``"event"``: there is an event of the topic "taskmeter" and nothing else, as there is for
        each of the others, too.

    Raises
    ------
    ValueError
        If a limit cannot be what was given.

    Notes
    -----
    It is an annotation, ``dask.annotate(taskmeter_timeout=...)``. As with any annotation, tasks
    that Dask fuses may lose it: set ``optimization.fuse.active`` to false, or limit a prefix by the
    setting ``taskmeter.timeouts``.

    Examples
    --------
    >>> import taskmeter
    >>> with taskmeter.timeout("10 min", then="retry"):  # doctest: +SKIP
    ...     future = client.submit(download, url)
    """
    limit = Limit.of(after, then)
    value = f"{limit.after}x" if limit.relative else limit.after
    annotation = {TIMEOUT_ANNOTATION: {"after": value, "then": limit.then}}
    return cast("AbstractContextManager[None]", dask.annotate(**annotation))
