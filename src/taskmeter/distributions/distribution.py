"""One distribution of durations, sizes or bandwidths: exact moments, guaranteed quantiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan, sqrt
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from taskmeter.distributions import codec, exact_sums, grid, html
from taskmeter.distributions.bucket_runs import Run, add, frozen, subtract
from taskmeter.distributions.grid import DEFAULT_SCHEMA, Floats, Ints
from taskmeter.distributions.quantiles import cdf, quantiles
from taskmeter.distributions.summarise import BLOCK, Fields, summarise

if TYPE_CHECKING:
    from taskmeter.distributions.fit import FitReport

_NO_COUNTS: Ints = np.zeros(0, dtype=np.int64)
_NO_COUNTS.setflags(write=False)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Distribution:
    """A sample of non-negative values, summarised; immutable.

    Notes
    -----
    What is guaranteed:

    - ``count``, ``minimum``, ``maximum`` are exact; ``sum``, ``squares``, ``mean`` and ``variance``
      are the exact figure, rounded once, after any number of `merge` and `since`.
    - Any quantile is within `relative_error` of the true sample quantile: 1.1 % at schema 5, for
      every distribution whose positive values span a ratio of at most 1.8e19. A wider one is kept
      on a coarser grid, 2.2 % for a ratio of up to 3.4e38, and so on; no value is ever left out.
    - `merge` is associative and commutative, and any split of a sample, merged, is equal (``==``)
      to the whole; ``a.merge(b).since(a)`` has the counts and sums of ``b``.
    - At most 2,048 buckets, so at most 9 KB for 4 billion values; a few hundred are usual.

    Two distributions are equal when all they say of their values is equal. Neither ``invalid``,
    which counts what is not among the values, nor the rounding of the log-moments takes part. An
    empty distribution answers ``nan`` and never raises.

    The fields are for those that encode or export a distribution; read it through its properties.
    """

    #: bucket ``i`` covers ``(2**((i-1)/2**schema), 2**(i/2**schema)]``
    schema: int = DEFAULT_SCHEMA
    #: how many values, zeros included
    count: int = 0
    zero_count: int = 0
    #: how many negative, infinite and nan ones were refused
    invalid: int = 0
    minimum: float = nan
    maximum: float = nan
    #: sum of the values, in units of 2**-1074
    exact_sum: int = 0
    #: sum of their squares, in units of 2**-2148
    exact_squares: int = 0
    #: sum of the logarithms of the positive values, and of the squares of the logarithms
    log_sum: float = 0.0
    log_squares: float = 0.0
    #: the index of the first bucket in ``counts``
    offset: int = 0
    #: values per bucket, first and last not 0; read-only; uint32 while that holds ``count``, else
    #: int64
    counts: Ints = field(default_factory=lambda: _NO_COUNTS)

    # ---- making one

    @classmethod
    def of(cls, values: Iterable[float], *, schema: int = DEFAULT_SCHEMA) -> Distribution:
        """Summarise ``values``; negative and non-finite ones are only counted, as invalid."""
        if not isinstance(values, np.ndarray | Sequence):
            values = list(values)
        array = np.ascontiguousarray(values, dtype=np.float64).ravel()
        result = cls(schema=schema)
        for start in range(0, array.size, BLOCK):
            block = array[start : start + BLOCK]
            result = result.merge(cls.of_fields(summarise(block, [block.size], schema)[0]))
        return result

    @classmethod
    def of_fields(cls, fields: Fields) -> Distribution:
        """Build one from consistent fields; the counts are copied."""
        copied = fields.copy()
        copied["counts"] = frozen(fields["counts"], fields["count"])
        return cls(**copied)

    # ---- moments

    @property
    def sum(self) -> float:
        """The sum of all values."""
        return exact_sums.to_float(self.exact_sum, exact_sums.SUM_BITS)

    @property
    def squares(self) -> float:
        """The sum of the squares of all values."""
        return exact_sums.to_float(self.exact_squares, exact_sums.SQUARES_BITS)

    @property
    def mean(self) -> float:
        """The mean; ``nan`` when empty."""
        return (
            exact_sums.ratio(self.exact_sum, self.count << exact_sums.SUM_BITS)
            if self.count
            else nan
        )

    @property
    def variance(self) -> float:
        """The sample variance (divisor ``count - 1``); ``nan`` for fewer than two values.

        The textbook formula, free of its cancellation since the two sums are exact.
        """
        if self.count < 2:
            return nan
        deviations = self.count * self.exact_squares - self.exact_sum * self.exact_sum
        return exact_sums.ratio(
            deviations, self.count * (self.count - 1) << exact_sums.SQUARES_BITS
        )

    @property
    def std(self) -> float:
        """The sample standard deviation; ``nan`` for fewer than two values."""
        return sqrt(self.variance)

    @property
    def log_mean(self) -> float:
        """The mean of the logarithms of the positive values; ``nan`` when there is none."""
        positive = self.count - self.zero_count
        return self.log_sum / positive if positive else nan

    @property
    def log_variance(self) -> float:
        """The variance (divisor n) of the logarithms of the positive values; ``nan`` for none."""
        positive = self.count - self.zero_count
        if not positive:
            return nan
        return max(self.log_squares / positive - self.log_mean**2, 0.0)

    # ---- buckets

    @property
    def run(self) -> Run:
        """Its buckets, as `taskmeter.distributions.bucket_runs` works with them."""
        return Run(self.schema, self.offset, self.counts)

    @property
    def relative_error(self) -> float:
        """The bound on the relative error of a quantile: 0.0108 at schema 5."""
        return grid.relative_error(self.schema)

    @property
    def bucket_counts(self) -> Ints:
        """Values per bucket, zeros left out, as a new int64 array."""
        return self.counts.astype(np.int64)

    @property
    def bucket_bounds(self) -> Floats:
        """The bounds of those buckets, one more than there are buckets; empty for no bucket."""
        if not self.counts.size:
            return np.zeros(0)
        edges = np.arange(self.offset - 1, self.offset + self.counts.size)
        return grid.upper_bounds(edges, self.schema)

    # ---- quantiles

    @overload
    def quantile(self, q: float) -> float: ...
    @overload
    def quantile(self, q: Sequence[float] | Floats) -> Floats: ...
    def quantile(self, q: float | Sequence[float] | Floats) -> float | Floats:
        """Return the sample quantile at ``q``, a number or an array of them in [0, 1].

        The sample quantile is numpy's default, Hyndman and Fan's (1996) definition 7: the value at
        rank ``(count - 1) * q``, linear between the two order statistics around it. Here each order
        statistic is known to its bucket, so the answer is within `relative_error` (1.1 % at schema
        5) of it. Minimum, maximum and zeros are exact.
        """
        wanted = np.asarray(q, dtype=np.float64)
        result = quantiles([self], wanted.ravel())[0]
        return float(result[0]) if wanted.ndim == 0 else result.reshape(wanted.shape)

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: Sequence[float] | Floats) -> Floats: ...
    def cdf(self, x: float | Sequence[float] | Floats) -> float | Floats:
        """Return the share of values at or below ``x``, a number or an array.

        Exact at bucket bounds, at 0, below the minimum and from the maximum on; between two bounds
        geometric, so off by the share of one bucket at most.
        """
        at = np.asarray(x, dtype=np.float64)
        result = cdf(self, at)
        return float(result) if at.ndim == 0 else result

    # ---- arithmetic

    def merge(self, other: Distribution) -> Distribution:
        """Return the distribution of both samples together.

        The coarser of the two grids is kept, and every count. Exact, and it does not matter in
        which order anything is merged.
        """
        if not (self.count and other.count):
            kept, empty = (self, other) if self.count or not other.count else (other, self)
            return replace(kept, invalid=kept.invalid + empty.invalid) if empty.invalid else kept
        run = add(self.run, other.run)
        count = self.count + other.count
        return Distribution(
            schema=run.schema,
            count=count,
            zero_count=self.zero_count + other.zero_count,
            invalid=self.invalid + other.invalid,
            minimum=min(self.minimum, other.minimum),
            maximum=max(self.maximum, other.maximum),
            exact_sum=self.exact_sum + other.exact_sum,
            exact_squares=self.exact_squares + other.exact_squares,
            log_sum=self.log_sum + other.log_sum,
            log_squares=self.log_squares + other.log_squares,
            offset=run.offset,
            counts=frozen(run.counts, count),
        )

    def since(self, older: Distribution) -> Distribution:
        """Return the distribution of what was added since ``older``, an earlier state of this one.

        Count, sums, moments and buckets are exact. A minimum or maximum that `older` already had
        cannot be told from what was added; then it is the bound of the outermost bucket, so at most
        one bucket (2.2 % at schema 5) outside of the true one.

        Raises
        ------
        ValueError
            When ``older`` holds values that this distribution does not.
        """
        if not older.count:
            return replace(self, invalid=self._invalid_since(older)) if older.invalid else self
        if self == older:
            # most of a long history stands still, and a live view asks again every second
            return Distribution(schema=self.schema, invalid=self._invalid_since(older))
        run = subtract(self.run, older.run)
        count = self.count - older.count
        zeros = self.zero_count - older.zero_count
        total = self.exact_sum - older.exact_sum
        squares = self.exact_squares - older.exact_squares
        if min(count, zeros, total, squares, int(run.counts.min(initial=0))) < 0:
            raise ValueError(_NOT_OLDER)
        if not count:
            return Distribution(schema=run.schema, invalid=self._invalid_since(older))
        minimum, maximum = self._extremes_since(older, run, zeros)
        logs = run.counts.size > 0
        return Distribution(
            schema=run.schema,
            count=count,
            zero_count=zeros,
            invalid=self._invalid_since(older),
            minimum=minimum,
            maximum=maximum,
            exact_sum=total,
            exact_squares=squares,
            log_sum=self.log_sum - older.log_sum if logs else 0.0,
            log_squares=max(self.log_squares - older.log_squares, 0.0) if logs else 0.0,
            offset=run.offset,
            counts=frozen(run.counts, count),
        )

    def _extremes_since(self, older: Distribution, run: Run, zeros: int) -> tuple[float, float]:
        minimum = maximum = 0.0
        if run.counts.size:
            last = run.offset + run.counts.size - 1
            maximum = min(self.maximum, grid.largest(last, run.schema))
            minimum = max(self.minimum, grid.smallest(run.offset, run.schema))
        if zeros or self.minimum < older.minimum:
            minimum = 0.0 if zeros else self.minimum
        return minimum, self.maximum if self.maximum > older.maximum else maximum

    def _invalid_since(self, older: Distribution) -> int:
        if self.invalid < older.invalid:
            raise ValueError(_NOT_OLDER)
        return self.invalid - older.invalid

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Distribution):
            return NotImplemented
        if not self.count or not other.count:
            return self.count == other.count
        return self._identity() == other._identity() and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # holds an array; nobody needs it as a key

    def _identity(self) -> tuple[float, ...]:
        return (
            self.schema, self.count, self.zero_count, self.minimum, self.maximum,
            self.exact_sum, self.exact_squares, self.offset,
        )  # fmt: skip

    # ---- elsewhere

    def fit(self) -> FitReport:
        """Find the family that describes it best, with the evidence; needs scipy.

        See `taskmeter.distributions.fit.fit`.
        """
        from taskmeter.distributions.fit import fit  # noqa: PLC0415  # scipy is optional and slow to import

        return fit(self)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-able values; ``None`` stands for ``nan``, sums are exact text."""
        return codec.to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Distribution:
        """Undo `to_dict`; ``ValueError`` for anything that is not the dict of a distribution."""
        return cls.of_fields(codec.from_dict(data))

    def to_bytes(self) -> bytes:
        """Return it in some 100 bytes plus 1 or 2 a bucket, for reports and recordings."""
        return codec.to_bytes(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Distribution:
        """Undo `to_bytes`; ``ValueError`` for anything else, by checksum and by consistency."""
        return cls.of_fields(codec.from_bytes(data))

    def __reduce__(self) -> tuple[Any, ...]:
        # numpy forgets on the way that an array is read-only, and its pickles are larger
        return Distribution.from_bytes, (self.to_bytes(),)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, *, name: str = "", unit: str = "") -> str:
        """Return a picture of the distribution and its figures, as HTML.

        Parameters
        ----------
        name
            Whose it is.
        unit
            ``"seconds"``, ``"bytes"`` or ``"bytes/s"``: figures are written with the unit that
            suits each. Anything else stands behind the numbers.
        """
        return html.of_distribution(self, name=name, unit=unit)

    def __repr__(self) -> str:
        if not self.count:
            return f"Distribution(count=0, invalid={self.invalid})"
        p50, p99 = self.quantile([0.5, 0.99]).tolist()
        return (
            f"Distribution(count={self.count}, mean={self.mean:.6g}, minimum={self.minimum:.6g}, "
            f"p50={p50:.4g}, p99={p99:.4g}, maximum={self.maximum:.6g})"
        )


_NOT_OLDER = "since() needs an earlier state of the same distribution; this one holds other values"
