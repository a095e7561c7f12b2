"""Messages for tests: any that a meter could send, and one with everything in it."""

from __future__ import annotations

import dataclasses

import msgpack
import numpy as np
from hypothesis import strategies as st

from taskmeter.attempts.attempt import OUTCOMES, AttemptTotals, PrefixTotals
from taskmeter.attempts.idle_reasons import STATES
from taskmeter.attempts.ledger import AttemptStart, AttemptState
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.message import (
    Completion,
    Failed,
    GroupActivity,
    Message,
    Samples,
    Slowest,
    WorkCost,
)
from taskmeter.protocol.series import DURATION, MEASURES, Series
from taskmeter.protocol.wire import pack_message
from taskmeter.snapshots.costs import Cost

names = st.text(st.characters(), max_size=20)
seconds = st.floats(0, 1e10)
counts = st.integers(0, 2**53)
keys = st.recursive(
    names | st.binary(max_size=9) | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False),
    lambda k: st.lists(k, max_size=3).map(tuple),
    max_leaves=4,
)
run_ids = st.integers(-1, 2**40)
totals = st.builds(
    PrefixTotals,
    attempts=st.fixed_dictionaries(
        dict.fromkeys(OUTCOMES, st.builds(AttemptTotals, count=counts, seconds=seconds))
    ),
    seceded_seconds=seconds,
    cpu_seconds=seconds,
    wasted_cpu_seconds=seconds,
)
series = st.builds(Series, st.sampled_from(MEASURES), names, names, names)
some_values = st.lists(st.floats(0, 1e10), min_size=1, max_size=5)


def tuples(elements):
    return st.lists(elements, max_size=3).map(tuple)


samples = st.builds(
    Samples,
    values=st.dictionaries(series, some_values.map(np.array), max_size=3),
    distributions=st.dictionaries(series, some_values.map(Distribution.of), max_size=3),
    groups=tuples(
        st.builds(
            GroupActivity,
            group=names,
            prefix=names,
            span_id=names,
            start_age=seconds,
            stop_age=seconds,
        )
    ),
    slowest=tuples(st.builds(Slowest, prefix=names, key=names, seconds=seconds, age=seconds)),
    completions=tuples(
        st.builds(
            Completion,
            prefix=names,
            key=keys,
            run_id=run_ids,
            start_age=seconds,
            seconds=seconds,
            outcome=st.sampled_from(OUTCOMES),
            thread=st.integers(-1, 2**40),
            input_bytes=st.none() | st.floats(0, 1e18),
            weight=st.floats(0, 1e9),
            seceded=st.booleans(),
        )
    ),
    failures=tuples(
        st.builds(
            Failed,
            prefix=names,
            exception=names,
            count=counts,
            message=names,
            traceback=st.text(st.characters(), max_size=300),
            key=names,
            first_age=seconds,
            last_age=seconds,
        )
    ),
    costs=tuples(
        st.builds(
            WorkCost,
            group=names,
            span_id=names,
            annotation=names,
            attempts=counts,
            cost=st.builds(
                Cost,
                compute_seconds=seconds,
                wasted_seconds=seconds,
                output_bytes=st.floats(0, 1e18),
            ),
        )
    ),
    invalid=counts,
)
levels = st.fixed_dictionaries(dict.fromkeys(STATES, seconds))
messages = st.builds(
    Message,
    meter=names,
    number=st.integers(1, 2**53),
    elapsed_seconds=seconds,
    started=tuples(st.builds(AttemptStart, number=counts, key=keys, run_id=run_ids, prefix=names)),
    states=tuples(
        st.builds(
            AttemptState,
            number=counts,
            phase=st.sampled_from(["waiting", "computing", "seceded"]),
            compute_seconds=seconds,
            seceded_seconds=seconds,
            age_seconds=seconds,
            cancelled=st.booleans(),
            cpu_seconds=st.none() | seconds,
            still_seconds=seconds,
            frame=names,
            thread=st.integers(-1, 2**40),
        )
    ),
    ended=tuples(counts),
    totals=st.dictionaries(names, totals, max_size=3),
    thread_seconds=levels,
    threads=levels,
    samples=samples,
    invalid=st.integers(0, 2**40),
    errors=st.dictionaries(names, counts, max_size=3),
    version=names,
)

EXAMPLE = Message(
    meter="m",
    number=1,
    elapsed_seconds=0.5,
    started=(AttemptStart(number=1, key=("k", 1), run_id=7, prefix="p"),),
    states=(AttemptState(number=1, compute_seconds=1.0, age_seconds=2.0, cpu_seconds=0.5),),
    ended=(3,),
    totals={"p": PrefixTotals()},
    samples=Samples(
        values={Series(DURATION, "p", "compute", "g"): np.array([1.0, 2.0])},
        distributions={Series(DURATION, "q"): Distribution.of([1.0])},
        groups=(GroupActivity(group="g", prefix="p", start_age=2.0, stop_age=1.0),),
        slowest=(Slowest(prefix="p", key="k", seconds=2.0, age=1.0),),
        completions=(Completion(prefix="p", key="k", run_id=1, start_age=2.0, seconds=1.0),),
        failures=(Failed(prefix="p", exception="ValueError", message="m", key="k"),),
        costs=(WorkCost(group="g", attempts=1, cost=Cost(compute_seconds=1.0)),),
    ),
    errors={"hook": 2},
)


def comparable(message):
    """Return a message as values that ``==`` compares, arrays included."""
    values = {s: v.tolist() for s, v in message.samples.values.items()}
    return dataclasses.replace(message, samples=dataclasses.replace(message.samples, values=values))


#: the places of what a message is packed into
(
    STARTED, ATTEMPT_STATES, ENDED, TOTALS, THREAD_SECONDS, THREADS, VALUES, DISTRIBUTIONS,
    GROUPS, SLOWEST, COMPLETIONS, FAILURES, COSTS, SAMPLES_INVALID, INVALID, ERRORS, VERSION,
) = range(4, 21)  # fmt: skip


def plain(message=EXAMPLE):
    """Return what a message is packed into, to be garbled."""
    return msgpack.unpackb(
        pack_message(message), unicode_errors="surrogatepass", strict_map_key=False
    )


def packed(parts):
    """Return the bytes of a garbled message."""
    return msgpack.packb(parts, unicode_errors="surrogatepass")
