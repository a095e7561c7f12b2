"""What was added between two instants, where the later one may know better about the past."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taskmeter.attempts.increments import nearest_increments


def added_seconds(
    newer: tuple[Mapping[str, float], Mapping[str, float]],
    older: tuple[Mapping[str, float], Mapping[str, float]],
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the compute and idle seconds of a window: none negative, and their sum as it is.

    At both ends compute and idle add up to the thread seconds, so they do in the window. A later
    snapshot is revised: what was taken for idle before may be known as compute by now, or less of
    one prefix. Where a difference comes out negative, all are brought to the nearest ones that are
    possible (`nearest_increments`), so that no window shows more busy threads than there were.

    Parameters
    ----------
    newer, older
        ``({prefix: compute seconds}, {reason: idle seconds})`` at both ends.
    """
    prefixes, reasons = list(newer[0]), list({**older[1], **newer[1]})
    wanted = [newer[0][name] - older[0].get(name, 0.0) for name in prefixes]
    wanted += [newer[1].get(r, 0.0) - older[1].get(r, 0.0) for r in reasons]
    added = np.array(wanted, dtype=np.float64)
    if wanted and min(wanted) < 0:
        added = nearest_increments(added, max(0.0, float(added.sum())))
    return (
        dict(zip(prefixes, added[: len(prefixes)].tolist(), strict=True)),
        dict(zip(reasons, added[len(prefixes) :].tolist(), strict=True)),
    )
