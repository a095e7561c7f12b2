"""What a client can tell of tasks: how long they take, and how long they may run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import cast

import dask

from taskmeter.estimation.hint import SPREAD, Hint
from taskmeter.policies.timeouts import Limit
from taskmeter.protocol.names import DURATION_ANNOTATION, TIMEOUT_ANNOTATION


def duration(
    typical: float | str | timedelta, *, spread: float = SPREAD
) -> AbstractContextManager[None]:
    """Say how long tasks take that are submitted in a ``with`` block, before any is known.

    It holds for their prefixes: expected durations, the time that is left and late attempts go by
    it until five have completed, each of which makes it count less. By setting it is
    ``taskmeter.default-durations``; Dask's ``distributed.scheduler.default-task-durations`` counts
    as well, with a spread of 4.

    Parameters
    ----------
    typical
        The median: seconds, a text such as ``"20 min"``, or a `datetime.timedelta`.
    spread
        The factor within which of that two thirds of all attempts are.

    Raises
    ------
    ValueError
        If a duration cannot be what was given.

    Notes
    -----
    It is an annotation, ``dask.annotate(taskmeter_duration="20 min")``, which tasks that Dask fuses
    may lose.

    Examples
    --------
    >>> import taskmeter
    >>> with taskmeter.duration("20 min", spread=3):  # doctest: +SKIP
    ...     futures = client.map(train, seeds)
    """
    hint = Hint.of(typical, spread)
    annotation = {DURATION_ANNOTATION: {"typical": hint.typical, "spread": hint.spread}}
    return cast("AbstractContextManager[None]", dask.annotate(**annotation))


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
