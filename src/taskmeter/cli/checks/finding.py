"""A finding of ``taskmeter doctor``: the state of one thing, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OK, WARN, FAIL = "OK", "WARN", "FAIL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The state of one thing.

    Parameters
    ----------
    status
        `OK`, `WARN` or `FAIL`.
    what
        The thing.
    says
        Its state and, if something is wrong, what to do.
    """

    status: str
    what: str
    says: str


def fold(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings with one line for all workers that are well."""
    well = [f for f in findings if f.status == OK and f.what.startswith("worker ")]
    return (
        *(f for f in findings if f not in well),
        Finding(status=OK, what="workers", says=f"{len(well):,} of them are well"),
    )
