"""The reference pages: metrics from the catalogue, settings from their schema.

``python -m taskmeter.exporters.reference > docs/metrics.md`` writes the one,
``python -m taskmeter.exporters.reference settings > docs/settings.md`` the other.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from taskmeter.attempts.attempt import OTHER
from taskmeter.catalogue import FAMILIES, SCOPES, Scope
from taskmeter.config import DEFAULTS, Settings, allowed, schema
from taskmeter.exporters.classic import COARSE, DENSE

_INTRODUCTION = """\
# Metrics

<!-- Generated: python -m taskmeter.exporters.reference > docs/metrics.md -->

Every server with taskmeter serves its figures at `/taskmeter/metrics`, on the port of its
dashboard, as Prometheus text 0.0.4, OpenMetrics 1.0 or Prometheus's protobuf, whichever the scraper
asks for. When a process holds one Dask server only, which is how clusters are usually deployed,
they are in Dask's own `/metrics` too, so a scrape job that is already there needs no change; but
histograms and sums of squares are not, because Dask writes that page on the server's event loop,
which they would hold twelve times as long (0.7 s for 200 prefixes with six histograms each).
taskmeter's own page is written in a thread.

Let Prometheus scrape one of the two pages of a server, not both: they show the same series, and
every sum over them would double, every alert fire twice. A scrape job for `/taskmeter/metrics`
(`metrics_path: /taskmeter/metrics`) has everything of taskmeter's. If Dask's own families are
wanted too, by a second job for `/metrics`, take taskmeter's out of that page with the setting
`taskmeter.join-dask-metrics: false`, or out of that job with

```yaml
metric_relabel_configs:
  - {{source_labels: [__name__], regex: ".*taskmeter_.*", action: drop}}
```

Names start with Dask's setting `distributed.dashboard.prometheus.namespace`, `{namespace}` by
default. The first {cap} prefixes of a server (setting `taskmeter.max-prefixes`) have series of
their own; later ones share `task_prefix_name="{other}"`, so that sums over the label stay exact.

## Histograms

Scraped as protobuf (Prometheus with `--enable-feature=native-histograms`, or the setting
`scrape_native_histograms` of later releases), each histogram is a native one with the buckets that
taskmeter keeps itself: `histogram_quantile` is within 2.2 % of the sample quantile. Every format
has classic buckets too. A classic bucket `le` holds all values up to its bound and none that is
more than 2.2 % above it; bounds that are powers of two are exact. (Both are 4.4 % where the values
of one series span a ratio of more than 1.8e19, which makes its grid coarser.) No bucket ever falls,
not even when a grid becomes coarser.

{buckets}
`histogram_quantile` takes the values of a bucket to be spread evenly over it, so it is off by a
bucket's width at most, and by that much where all values are about the same. A cluster of 50
prefixes has 50 x {dense_series} = {dense_50:,} series of compute, and {coarse_series} for each
prefix and other action. To have fewer or other bounds, set [settings](settings.md)
`taskmeter.duration-buckets`, which is for all durations then, and `taskmeter.bytes-buckets`: lists
in YAML or in the environment (`DASK_TASKMETER__DURATION_BUCKETS="[1, 60]"`). Native histograms have
one series each.

A histogram has a series for what was observed at least once. Only `action="compute"` is there, with
zeros, from the moment that a prefix is known. The OpenMetrics and protobuf formats name the slowest
recent task of a prefix as an exemplar of its compute histogram, with the label `key`.

## Rates over all prefixes, and when a series began

`rate` is of what a series grew by between its samples. The series of a prefix begins with the first
scrape that finds the prefix, which has used threads by then: so a sum of rates over prefixes lacks
what each did before its first scrape, half of everything where prefixes last as long as the
interval of scrapes. `cluster_compute_seconds_total`, `cluster_attempts_total` and
`cluster_attempt_seconds_total` are the sums over all prefixes and begin with the scheduler: take
those for whatever is not by prefix. Idle and thread seconds have no prefix anyway. On a worker, the
threads that are busy are `rate(thread_seconds_total)` less the sum of `rate(idle_seconds_total)`.

OpenMetrics and protobuf say when each counter and histogram began (`_created`): with the meter of
the scheduler or worker, or when the prefix was first seen, before it ran. A Prometheus from 2.50 on
with `--enable-feature=created-timestamp-zero-ingestion` begins such a series with a zero there, so
that the rates by prefix are right too. Others that scrape OpenMetrics keep `_created` as one more
series for each counter and histogram; where they are not wanted:

```yaml
metric_relabel_configs:
  - {{source_labels: [__name__], regex: ".*taskmeter_.*_created", action: drop}}
```

## Where the time goes

At every instant, on every worker: thread seconds = compute seconds + idle seconds by reason. And
the activities of context `execute` that are a task's own code (`thread-cpu`, `thread-noncpu`, and
what the code meters itself with Dask's `context_meter`) make up its compute and seceded seconds,
those in flight included. Dask knows the activities of an attempt when it has ended; until then, and
for attempts that do not end ok, what is not CPU time is `thread-noncpu`. Where that turns out to
have been something else, the counter stands still until the rest has caught up: it does not fall.

CPU time is read from the clocks of the threads that run tasks, which Linux has and other systems
have not: there, `cpu_seconds_total` and `stalled` are absent, and all of a task in flight is
`thread-noncpu`. It is as of the last report, not extrapolated. Threads that a task's code starts
itself, such as those of a BLAS library, are not in it.

`task_state_seconds_total` is an integral over time, kept at every change and not sampled. A gauge
scraped every 5 s says nothing of what happens in between; its rate is exact, however short a state
lasts. `worker_state_seconds_total` is an integral of what the scheduler shows at every message of a
worker, and twice a second.

## Timestamps

What workers report is up to one report interval old (0.5 s on small clusters, some seconds on large
ones), so the scheduler extrapolates what is in flight to the moment of the scrape. With the setting
`taskmeter.timestamps: true` it does not: compute, seceded, CPU, idle and thread seconds, activities
and `executing` are given as the workers last reported them, and carry the time of the newest report
as the timestamp of their samples (in milliseconds as text and protobuf, in seconds as OpenMetrics).
So with one worker each sample is exact for the very instant it names; with many, for each worker to
within its own report interval before that. All other families, and all pages of workers, stay
unstamped: they are true at the moment of the scrape.

The price is paid in Prometheus. It writes no staleness marker for a sample with a timestamp of its
own: when the scheduler goes, or no report comes any more, the stamped series do not end at once,
but are given with their last value for 5 minutes more (`--query.lookback-delta`), and alerts on
them wait as long. Newer releases have `track_timestamps_staleness: true` in the scrape
configuration against it. A scrape between two reports adds no sample, so a range in `rate()` must
span several report intervals, too. The scheduler's clock should be right: samples whose time is
before that of earlier ones are refused. The setting is for those who compare with records of their
own, and for long report intervals; off, as it is by default, is right for dashboards and alerts.

## Queries

Some questions, and the query that answers each:

"""

#: Question and PromQL, where names stand in angle brackets, without namespace.
_QUESTIONS = (
    (
        "Which kinds of task keep how many threads busy?",
        "rate(<compute_seconds_total>[1m])",
    ),
    (
        "How busy is the cluster?",
        "sum(rate(<cluster_compute_seconds_total>[1m])) / sum(rate(<thread_seconds_total>[1m]))",
    ),
    (
        "How many threads do wasted attempts take, and why are they wasted?",
        'sum by (outcome) (rate(<cluster_attempt_seconds_total>{outcome!="ok"}[5m]))',
    ),
    (
        "What are idle threads waiting for?",
        "sum by (reason) (rate(<idle_seconds_total>[1m]))",
    ),
    (
        "Which part of their time do tasks compute, and not wait?",
        (
            "rate(<cpu_seconds_total>[5m]) "
            "/ (rate(<compute_seconds_total>[5m]) + rate(<seceded_seconds_total>[5m]))"
        ),
    ),
    (
        "What do tasks spend their time on, those in flight included?",
        'sum by (activity) (rate(<activity_seconds_total>{context="execute"}[1m]))',
    ),
    (
        "How many tasks were queued on the scheduler, on average?",
        'sum(rate(<task_state_seconds_total>{state="queued"}[1m]))',
    ),
    (
        "Did workers die in the last hour?",
        'sum(increase(<workers_left_total>{reason=~"lost|timeout"}[1h]))',
    ),
    (
        "Which kinds of task hang?",
        "<stalled> > 0",
    ),
    (
        "How long does a good attempt take?",
        (
            'rate(<attempt_seconds_total>{outcome="ok"}[5m]) '
            '/ rate(<attempts_total>{outcome="ok"}[5m])'
        ),
    ),
    (
        "How long do the slowest 5 % of good attempts take at least?",
        (
            "histogram_quantile(0.95, sum by (task_prefix_name, le) "
            '(rate(<duration_seconds_bucket>{action="compute"}[5m])))'
        ),
    ),
    (
        "The same with native histograms?",
        'histogram_quantile(0.95, rate(<duration_seconds>{action="compute"}[5m]))',
    ),
    (
        "By how much do good attempts differ (standard deviation)?",
        (
            'sqrt(rate(<duration_seconds_squares_total>{action="compute"}[5m]) '
            '/ rate(<duration_seconds_count>{action="compute"}[5m]) '
            '- (rate(<duration_seconds_sum>{action="compute"}[5m]) '
            '/ rate(<duration_seconds_count>{action="compute"}[5m])) ^ 2)'
        ),
    ),
    (
        "Which kinds of task have one that has been running for an hour?",
        "time() - <oldest_attempt_start_time_seconds> > 3600",
    ),
)

#: Series of a histogram that are not of a bound: +Inf, sum, count, and the squares beside it.
_BESIDE_BOUNDS = 4

_TITLES: Mapping[Scope, str] = {
    "scheduler": "## On the scheduler: the whole cluster\n\n",
    "worker": (
        "## On each worker: that worker alone\n\n"
        "These are exact to the instant of the scrape. The scheduler's figures already hold "
        "them,\nso a sum of both counts everything twice.\n\n"
    ),
}


_SETTINGS = """\
# Settings

<!-- Generated: python -m taskmeter.exporters.reference settings > docs/settings.md -->

The settings of taskmeter are Dask's own: `dask config get taskmeter` lists those in force. Set them
where the scheduler and the workers run, in a YAML file of Dask's configuration such as
`~/.config/dask/taskmeter.yaml`

```yaml
taskmeter:
  max-prefixes: 500
  durations: "on"
```

or in the environment (`DASK_TASKMETER__MAX_PREFIXES=500`), or with `dask.config.set` before the
cluster starts. They are read when taskmeter is installed. A value that cannot be used keeps
taskmeter from starting, with a sentence that says what is allowed; a setting that does not exist
has no effect, which the scheduler's log and `taskmeter doctor` say, with the nearest one that does.

What metric names start with is Dask's setting `distributed.dashboard.prometheus.namespace`.

"""


def page() -> str:
    """Return the page of the metrics: each family with its kind, labels and meaning."""
    default = Settings()
    introduction = _INTRODUCTION.format(
        namespace=default.namespace,
        cap=default.max_prefixes,
        other=OTHER,
        buckets=_buckets(default),
        dense_series=len(DENSE) + _BESIDE_BOUNDS,
        dense_50=50 * (len(DENSE) + _BESIDE_BOUNDS),
        coarse_series=len(COARSE) + _BESIDE_BOUNDS,
    )
    tables = (_TITLES[scope] + families(scope, default.namespace) for scope in SCOPES)
    return "\n".join((introduction + _questions(default.namespace), *tables))


def _buckets(default: Settings) -> str:
    """Return a table of the classic buckets: their bounds, what they are good for and cost."""
    least, most = (
        math.log2(bound) for bound in (default.bytes_buckets[0], default.bytes_buckets[-1])
    )
    factor = max(above / below for below, above in pairwise(COARSE))
    rows = (
        (
            '`duration_seconds{action="compute"}` of the scheduler',
            f"{len(DENSE)} from 2^-10 to 2^16.5 s (1 ms to 26 h), a factor of 2^(1/8) apart",
            "9.1 %",
            DENSE,
        ),
        (
            "all other durations and waits, and all of workers",
            ", ".join(f"{bound:g}" for bound in COARSE),
            f"a factor of {factor:.2g}",
            COARSE,
        ),
        (
            "bytes, bytes a second",
            f"powers of four from 2^{least:g} to 2^{most:g}",
            "a factor of 4",
            default.bytes_buckets,
        ),
    )
    return _table(
        ("classic buckets of", "bounds", "quantiles are off by at most", "series of a histogram"),
        *((*words, str(len(bounds) + _BESIDE_BOUNDS)) for *words, bounds in rows),
    )


def families(scope: Scope, namespace: str) -> str:
    """Return the families of one scope as a Markdown table."""
    rows = (
        (
            f"`{family.full_name(scope, namespace)}{family.suffix}`",
            family.kind,
            ", ".join(f"`{label}`" for label in family.labels),
            family.help_in(scope).replace("__", r"\_\_"),  # Markdown would make it bold
        )
        for family in FAMILIES
        if scope in family.scopes
    )
    return _table(("metric", "kind", "labels", "what it says"), *rows)


def settings_page() -> str:
    """Return the page of the settings: each with its default, what it takes and its meaning."""
    rows = (
        (
            f"`taskmeter.{name}`",
            ", ".join(f"`{json.dumps(part)}`" for part in _parts(DEFAULTS[name])),
            allowed(name),
            " ".join(rule["description"].split()),
        )
        for name, rule in schema().items()
    )
    return _SETTINGS + _table(("setting", "default", "takes", "meaning"), *rows)


def _parts(default: Any) -> Sequence[Any]:
    return default if isinstance(default, list) else (default,)


def _questions(namespace: str) -> str:
    full = rf"{namespace}_taskmeter_\1"
    rows = ((question, f"`{re.sub('<(.*?)>', full, query)}`") for question, query in _QUESTIONS)
    return _table(("question", "PromQL"), *rows)


def _table(*rows: tuple[str, ...]) -> str:
    head, *body = rows
    lines = [head, ("---",) * len(head), *body]
    return "".join(
        "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |\n" for cells in lines
    )


if __name__ == "__main__":
    sys.stdout.write(settings_page() if "settings" in sys.argv[1:] else page())
