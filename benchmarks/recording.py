"""What a recording costs: CPU time by where it is spent, and bytes.

    python benchmarks/recording.py [--rate 1000] [--prefixes 100] [--seconds 300] [--json]

So many seconds of a run are written as fast as can be, each with the news of one second: so many
ended attempts, a step of the history that names 50 prefixes, and, as often as a recorder takes one,
a snapshot of all prefixes. Shares are of one core, as if the seconds had passed; CPU time of the
thread, so that other programs on the machine count less:

    scheduler   taking the news on the event loop; the snapshot aside, which costs what any does
    writer      writing them, in a thread; on the scheduler, or in `taskmeter record`
    packing     on the scheduler, where `taskmeter record` asks instead: in another thread
    client      unpacking them there
    file_mb     the file at the end, and mb_an_hour, while the limits are not reached
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from time import thread_time

from taskmeter.attempts.attempt import AttemptTotals, no_attempts
from taskmeter.cluster.ended_attempts import EndedAttempts
from taskmeter.distributions.distribution import Distribution
from taskmeter.history.moment import Moment
from taskmeter.history.news import News
from taskmeter.history.recorder import LEAST_PAUSES, SNAPSHOT_SECONDS
from taskmeter.history.recording_writer import Limits, RecordingWriter
from taskmeter.protocol.wire import pack, unpack
from taskmeter.snapshots.snapshot import Snapshot
from taskmeter.snapshots.stats import PrefixStats

START = 1_700_000_000.0


def snapshot(prefixes: int, seconds: int) -> Snapshot:
    rng = random.Random(1)
    durations = Distribution.of([rng.lognormvariate(0, 1) for _ in range(2000)])
    stats = PrefixStats(
        compute_seconds=durations.sum,
        attempts={**no_attempts(), "ok": AttemptTotals(count=2000, seconds=durations.sum)},
        durations={"compute": durations, "transfer": durations, "thread-cpu": durations},
        waits={"worker": durations},
        output_bytes=durations,
    )
    return Snapshot(
        at=START + seconds,
        start=START,
        prefixes={f"prefix-{number}": stats for number in range(prefixes)},
    )


class Timer:
    """CPU seconds of this thread, by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def add(self, part: str, began: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + thread_time() - began


def measured(rate: int, prefixes: int, seconds: int, limits: Limits) -> dict[str, float]:
    """Write so many seconds; return the figures."""
    timer, ring, last, due = Timer(), EndedAttempts(), 0, 0.0
    names = [f"prefix-{number}" for number in range(prefixes)]
    whole = snapshot(prefixes, seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        writer = RecordingWriter(path, {}, limits)
        for second in range(seconds):
            at = START + second
            for number in range(rate):
                ring.add(
                    prefix=names[number % prefixes],
                    key=f"prefix-{number % prefixes}-0123456789abcdef0123456789abcdef-{number}",
                    run_id=second * rate + number,
                    worker=f"tcp://10.0.0.{number % 50}:40000",
                    start=at + number / rate,
                    seconds=0.05,
                    outcome="ok" if number % 100 else "failed",
                    thread=number % 4,
                )
            moment = Moment(
                start=at,
                stop=at + 1,
                compute_seconds=dict.fromkeys(names[:50], 1.2345678901234),
                thread_seconds=200.0,
                idle_seconds=dict.fromkeys(("no-task", "overhead", "scheduler"), 1.23456789),
                ended=rate,
                band=(0.1, 0.2, 0.3, 0.4, 0.5),
            )
            began = thread_time()
            ended = ring.after(last)
            timer.add("scheduler", began)
            last = ended[-1].number
            with_snapshot = second >= due
            news = News(moments=(moment,), ended=ended, snapshot=whole if with_snapshot else None)
            began = thread_time()
            packed = pack(news.to_dict())
            timer.add("packing", began)
            began = thread_time()
            News.from_dict(unpack(packed))
            timer.add("client", began)
            began = thread_time()
            writer.write(news)
            timer.add("writer", began)
            if with_snapshot:
                due = second + max(SNAPSHOT_SECONDS, LEAST_PAUSES * (thread_time() - began))
        writer.close()
        size = path.stat().st_size / 1e6
    shares = {part: total / seconds for part, total in timer.seconds.items()}
    return {**shares, "file_mb": size, "mb_an_hour": size * 3600 / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rate", type=int, default=1000, help="tasks a second")
    parser.add_argument("--prefixes", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--attempts", type=int, default=Limits().attempts)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    limits = Limits(attempts=options.attempts)
    found = measured(options.rate, options.prefixes, options.seconds, limits)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:10} {value:8.1f}" if "mb" in name else f"{name:10} {value:8.2%}")


if __name__ == "__main__":
    main()
