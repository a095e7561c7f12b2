from __future__ import annotations

from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from taskmeter.distributions.distribution import Distribution
from taskmeter.distributions.merge import merge_all

values = st.lists(
    st.floats(0, 1e300) | st.floats(0.5, 2) | st.sampled_from([-1.0, 0.0]), max_size=12
)


@given(st.lists(st.tuples(values, st.sampled_from([8, 5, 0, -4])), max_size=6))
def test_many_at_once_are_the_same_as_one_after_the_other(rows):
    every = [Distribution.of(samples, schema=schema) for samples, schema in rows]
    merged = merge_all(every)
    expected = reduce(Distribution.merge, every, Distribution())
    assert merged == expected
    assert merged.invalid == expected.invalid
    assert merged.counts.dtype == expected.counts.dtype


def test_the_only_one_with_a_value_is_given_back_itself():
    one = Distribution.of([1.0])
    assert merge_all([Distribution(), one, Distribution()]) is one
