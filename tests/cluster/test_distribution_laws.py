"""The distributions of a cluster: what holds whatever comes, in whatever order."""

from __future__ import annotations

from functools import reduce
from math import nan

from hypothesis import given, settings
from hypothesis import strategies as st

from simulated_workers import look
from taskmeter.attempts.attempt import OTHER
from taskmeter.cluster.account import ClusterAccount
from taskmeter.cluster.distributions import Distributions
from taskmeter.distributions.distribution import Distribution
from taskmeter.protocol.sample_buffers import SampleBuffers
from taskmeter.protocol.series import (
    DURATION,
    WAIT,
    Series,
)
from told_samples import tell, told, transfer

VALUE = st.floats(0, 1e9) | st.sampled_from([0.0, nan, -1.0])

#: (worker, prefix, group within it, ok, seconds), or a worker that sends a message
EVENT = st.tuples(
    st.integers(0, 2), st.sampled_from("pq"), st.integers(0, 2), st.booleans(), VALUE
) | st.integers(0, 2)


def samples_of(events):
    """Return ``[(worker, samples)]`` of some `EVENT` and of what is left at the end."""
    workers = [SampleBuffers() for number in range(3)]
    sent = []
    for event in [*events, 0, 1, 2]:
        if isinstance(event, int):
            sent.append((f"w{event}", workers[event].take(1.0)))
        else:
            number, prefix, place, ok, seconds = event
            workers[number].attempt(
                key="k",
                run_id=1,
                prefix=prefix,
                group=f"{prefix}-{place}",
                start=0.0,
                stop=1.0,
                seconds=seconds,
                outcome="ok" if ok else "failed",
            )
    return sent


def expected(attempts, ok, prefix, place=None):
    return Distribution.of(
        [
            seconds
            for _, its_prefix, its_place, good, seconds in attempts
            if good == ok and its_prefix == prefix and place in {None, its_place}
        ]
    )


@given(st.lists(EVENT, max_size=60), st.data())
def test_any_split_over_workers_and_messages_in_any_order_equals_the_whole(events, data):
    """The law of feeding: no way of delivering values changes what is known of them."""
    sent = samples_of(events)
    cluster = Distributions()
    for worker, samples in data.draw(st.permutations(sent)):
        cluster.take(samples, worker, 1.0)
    cluster.fold()

    attempts = [event for event in events if not isinstance(event, int)]
    found = cluster.prefixes()
    assert set(found) == {prefix for _, prefix, *_, seconds in attempts if seconds >= 0}
    for prefix, measured in found.items():
        failed = measured.single.get("failed_durations", Distribution())
        assert measured.durations["compute"] == expected(attempts, True, prefix)
        assert failed == expected(attempts, False, prefix)
    invalid = sum(samples.invalid for _, samples in sent)
    assert invalid == Distribution.of([attempt[-1] for attempt in attempts]).invalid

    groups = cluster.groups(1.0, 1.0)
    assert set(groups) == {f"{prefix}-{place}" for _, prefix, place, *_ in attempts}
    for name, stats in groups.items():
        prefix, place = name.split("-")
        assert stats.durations["compute"] == expected(attempts, True, prefix, int(place))
        assert stats.failed_durations == expected(attempts, False, prefix, int(place))
    for prefix, measured in found.items():
        whole = reduce(
            Distribution.merge,
            [stats.durations["compute"] for stats in groups.values() if stats.prefix == prefix],
            Distribution(),
        )
        assert whole == measured.durations["compute"], "the groups add up to the prefix"


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.data())
def test_values_that_travel_as_distributions_and_as_themselves_add_up_alike(values, data):
    samples, cluster = SampleBuffers(few=8), Distributions()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=4)))
    for start, stop in zip([0, *cuts], [*cuts, len(values)], strict=True):
        for value in values[start:stop]:
            samples.record(Series(WAIT, "p", "worker"), value)
        cluster.take(samples.take(0.0), "w", 0.0)
        if data.draw(st.booleans()):
            cluster.fold()
    cluster.fold()
    assert cluster.prefixes()["p"].waits["worker"] == Distribution.of(values)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=100), st.integers(0, 8))
def test_beyond_the_limit_of_series_the_sums_over_prefixes_stay_exact(whose, limit):
    account = ClusterAccount(distributions=Distributions(series=limit))
    values = {}
    for number in whose:
        values.setdefault(Series(DURATION, str(number), "compute"), []).append(number)
    tell(account, "w", told(values), 0.0)
    account.distributions.fold()
    prefixes = look(account, 0.0).prefixes
    assert sum(p.durations["compute"].sum for p in prefixes.values()) == sum(whose)
    assert sum(p.durations["compute"].count for p in prefixes.values()) == len(whose)
    assert sum(p.durations["compute"].count > 0 for p in prefixes.values()) <= limit + 1
    assert (OTHER in prefixes) == (len(values) > limit)


@given(
    st.lists(st.tuples(st.floats(0.001, 3), st.integers(0, 3)), min_size=1, max_size=80),
    st.sampled_from([1.0, 2.5, 5.0]),
)
def test_recent_holds_what_came_within_the_window_to_within_one_slice(steps, slice_seconds):
    slices = 4
    window = slices * slice_seconds
    cluster = Distributions(at=0.0, window=window, slices=slices)
    now, came, number = 0.0, [], 0
    longest = max(step for step, _ in steps)
    for step, count in steps:
        now += step
        if count:
            number += 1
            cluster.take(told({Series(DURATION, "p", "compute"): [1.0] * count}), "w", now)
            came += [now] * count
        cluster.fold()
        cluster.tick(now)
        durations = cluster.prefixes()["p"].durations["compute"] if came else Distribution()
        recent = cluster.recents()("p", durations).count
        # a slice is cut at the first tick after it is due
        oldest = now - window - slice_seconds - longest
        assert sum(at > now - window for at in came) <= recent
        assert recent <= sum(at >= oldest for at in came)
        assert durations.count == len(came)


MOMENT = (
    st.tuples(st.just("message"), st.integers(0, 1), st.integers(0, 5), VALUE)
    | st.tuples(st.just("depart"), st.integers(0, 1))
    | st.tuples(st.just("tick"), st.floats(0, 400))
    | st.tuples(st.just("record"), VALUE)
)


@given(st.lists(MOMENT, max_size=60))
def test_no_count_and_no_sum_ever_falls_whatever_comes_and_goes(moments):
    account = ClusterAccount(distributions=Distributions(groups=2, pairs=1, series=3))
    workers = [SampleBuffers() for number in range(2)]
    now, before = 0.0, look(account, 0.0)
    for what, *details in moments:
        if what == "message":
            number, place, value = details
            workers[number].attempt(
                key="k",
                run_id=1,
                prefix=f"p{place % 3}",
                group=f"g{place}",
                start=0.0,
                stop=1.0,
                seconds=value,
                outcome="ok" if place > 1 else "failed",
            )
            transfer(workers[number], f"w{place}", value, 1.0)
            tell(account, f"w{number}", workers[number].take(1.0), now)
        elif what == "depart":
            account.distributions.depart(f"w{details[0]}")
        elif what == "tick":
            now += details[0]
            account.distributions.tick(now)
        else:
            account.record(Series(WAIT, "p0", "queued"), details[0])
        account.distributions.fold()
        after = look(account, now)
        # raises if anything holds less than before
        for name, stats in before.prefixes.items():
            after.prefixes[name].since(stats)
        after.transfers.bytes.since(before.transfers.bytes)
        assert after.invalid_samples >= before.invalid_samples
        before = after
