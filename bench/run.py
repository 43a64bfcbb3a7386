"""`make bench`: every rival and ourselves in one run on one machine, as ratios.

Each contest runs its programs in turn, `--repeat` times, and compares medians. Nothing is asserted: machines are noisy.
`--write` keeps the result in bench/RESULTS.md.

    python bench/run.py --only keyed --repeat 1     one contest, quickly
"""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "rivals"))
import venvs  # noqa: E402 - needs the path above


@dataclass
class Entry:
    """A program of a contest: whose interpreter runs it, with which arguments."""

    label: str
    script: str
    arguments: list[str] | Callable[[], list[str]] = field(default_factory=list)
    environment: str = ""

    def run(self) -> dict[str, Any] | None:
        """Run it once and return its line of JSON, or None if it cannot be had."""
        try:
            python = str(venvs.interpreter(self.environment)) if self.environment else sys.executable
        except venvs.UnavailableError as error:
            print(f"    {self.label}: {error}", flush=True)
            return None
        arguments = self.arguments() if callable(self.arguments) else self.arguments
        done = subprocess.run(
            [python, str(HERE / self.script), *arguments], capture_output=True, text=True, check=False
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode or not lines:
            print(f"    {self.label} failed:\n{done.stderr[-2000:]}", flush=True)
            return None
        return json.loads(lines[-1])


@dataclass
class Contest:
    """One question, the first entry being ours; `value` picks the number, `wanted` the ratio for each rival."""

    name: str
    question: str
    entries: list[Entry]
    value: Callable[[dict[str, Any]], float]
    unit: str
    wanted: dict[str, str]
    lower_is_better: bool = False


def rate(line: dict[str, Any]) -> float:
    """Events per second."""
    return float(line["events_per_second"])


FLOODS = {
    "ours/latency.py": ["--rate", "400000", "--events", "30000000"],
    "rivals/latency_stock_spark.py": ["--rate", "100000000", "--events", "3000000000"],
}
"""More than either program of the latency contest can take."""


@functools.cache
def half_of_peak(program: str) -> int:
    """Return half the rate that comes out of a program when more comes in than it can take."""
    flooded = Entry("flooded", program, [*FLOODS[program], "--warmup", "0.5"]).run()
    if flooded is None:
        raise SystemExit(f"{program} has no peak: it failed")
    per_second = round(rate(flooded) / 2, -4)
    print(f"    {program}: peak {show(rate(flooded))} events/s, half of it is {show(per_second)}", flush=True)
    return int(per_second)


def at_rate(per_second: int) -> list[str]:
    """Return the arguments of some 100 seconds at a rate; so long does Java go on compiling, which is not measured."""
    return ["--rate", str(per_second), "--events", str(per_second * 100), "--warmup", "0.6"]


def contests(scale: float) -> list[Contest]:
    """Return all contests; `scale` shortens or lengthens them."""

    def many(events: float) -> list[str]:
        return ["--events", str(int(events * scale))]

    def our_half() -> list[str]:
        return at_rate(half_of_peak("ours/latency.py"))

    def their_half() -> list[str]:
        return at_rate(half_of_peak("rivals/latency_stock_spark.py"))

    window_args = ["--event-rate", "1000000"]
    keys, bursts = ["--keys", "100000"], ["--bursts"]
    return [
        Contest(
            "keyed",
            "keyed process function, running sum, an output per record, 100,000 keys, parallelism 2",
            [
                Entry("flintstream", "ours/keyed.py", many(20e6)),
                Entry("spark transformWithState", "rivals/keyed_stock_spark.py", many(1.5e6), "spark"),
                Entry(
                    "the same with micro-batches of a million rows",
                    "rivals/keyed_stock_spark.py",
                    [*many(4e6), "--batch-rows", "1000000"],
                    "spark",
                ),
                Entry("pyflink thread mode", "rivals/keyed_pyflink.py", many(2e6), "flink"),
                Entry("bytewax stateful_map, recovery on", "rivals/keyed_bytewax.py", many(4e6), "bytewax"),
            ],
            rate,
            "events/s",
            {
                "spark transformWithState": "40x",
                "pyflink thread mode": "30x",
                "bytewax stateful_map, recovery on": "2x",
            },
        ),
        Contest(
            "window",
            "tumbling 10 s window, sum and count, 1,000 keys, parallelism 2",
            [
                Entry("flintstream", "ours/window.py", [*many(200e6), *window_args]),
                Entry("flink sql", "rivals/window_flink_sql.py", many(40e6), "flink"),
                Entry("spark structured streaming", "rivals/window_stock_spark.py", many(100e6), "spark"),
            ],
            rate,
            "events/s",
            {"flink sql": "1.5x", "spark structured streaming": "2x"},
        ),
        Contest(
            "million",
            "the same window with a million keys, against a thousand keys",
            [
                Entry("a million keys", "ours/window.py", [*many(60e6), *window_args, "--keys", "1000000"]),
                Entry("a thousand keys", "ours/window.py", [*many(60e6), *window_args]),
            ],
            rate,
            "events/s",
            {"a thousand keys": "0.5x"},
        ),
        Contest(
            "sliding",
            "sliding 1 min / 1 s, sum and count, 100,000 keys, 1,000,000 events and 100,000 results in a second of "
            "event time, against a tumbling 10 s window over the same events",
            [
                Entry("sliding", "ours/window.py", [*many(150e6), *window_args, *keys, "--shape", "sliding"]),
                Entry("tumbling", "ours/window.py", [*many(150e6), *window_args, *keys]),
            ],
            rate,
            "events/s",
            {"tumbling": "0.25x"},
        ),
        Contest(
            "session",
            "sessions with a gap of 5 s, sum and count, 100,000 keys, each half of them active for 10 s in turn, "
            "1,000,000 events in a second of event time, against a tumbling 10 s window over the same events",
            [
                Entry("session", "ours/window.py", [*many(100e6), *window_args, *keys, *bursts, "--shape", "session"]),
                Entry("tumbling", "ours/window.py", [*many(100e6), *window_args, *keys, *bursts]),
            ],
            rate,
            "events/s",
            {"tumbling": "0.25x"},
        ),
        Contest(
            "broadcast",
            "each event looked up in broadcast state of 1,000 names, against a map that has them in a dict",
            [
                Entry("broadcast state", "ours/broadcast.py", many(40e6)),
                Entry("plain map", "ours/broadcast.py", [*many(40e6), "--shape", "map"]),
            ],
            rate,
            "events/s",
            {"plain map": "0.5x"},
        ),
        Contest(
            "pattern",
            "a pattern of three steps within 10 s, 100,000 keys, an event per key and second, parallelism 2, against "
            "conditions on columns and against the same by hand (state and timers)",
            [
                Entry("flintstream, functions as conditions", "ours/pattern.py", many(8e6)),
                Entry("flintstream, conditions on columns", "ours/pattern.py", [*many(8e6), "--by", "columns"]),
                Entry("keyed process function by hand", "ours/pattern.py", [*many(8e6), "--by", "hand"]),
            ],
            rate,
            "events/s",
            {},
        ),
        Contest(
            "interval-join",
            "interval join of two streams, each record meets two within 3 s of event time, 100,000 keys, parallelism 2",
            [
                Entry("flintstream", "ours/interval_join.py", many(20e6)),
                Entry("spark stream-stream join", "rivals/interval_join_stock_spark.py", many(6e6), "spark"),
                Entry("pyflink KeyedCoProcessFunction", "rivals/interval_join_pyflink.py", many(1e6), "flink"),
                Entry("flintstream, a Python function", "ours/interval_join.py", [*many(20e6), "--function"]),
            ],
            rate,
            "events/s",
            {"spark stream-stream join": "1x"},
        ),
        Contest(
            "tiny",
            "epoch on tiny input, against a bare micro-batch with a shuffle and two identity mapInArrow stages",
            [
                Entry("flintstream, stream of Spark's", "ours/tiny_epochs.py", [], "spark-ours"),
                Entry("bare micro-batch", "rivals/bare_microbatch.py", [], "spark"),
                Entry("flintstream, own source", "ours/tiny_epochs.py", ["--source", "ranges"]),
            ],
            lambda line: float(line["seconds_per_micro_batch"]["p50"]),
            "s",
            {"bare micro-batch": "at most 1.3x"},
            lower_is_better=True,
        ),
        *[
            Contest(
                f"latency-{name}",
                f"p50 and p99 from receipt to visible output at {at}",
                [
                    Entry("flintstream", "ours/latency.py", ours),
                    Entry("spark, native aggregation", "rivals/latency_stock_spark.py", theirs, "spark"),
                ],
                lambda line: float(line["latency"]["p50"]),
                "s",
                {"spark, native aggregation": "at most 1.2x"},
                lower_is_better=True,
            )
            for name, at, ours, theirs in (
                ("low", "1,000 events/s", at_rate(1_000), at_rate(1_000)),
                ("high", "half of peak, each at half of its own", our_half, their_half),
                ("same", "half of our peak, which is little for Spark's native code", our_half, our_half),
            )
        ],
        *[
            Contest(
                f"checkpointing-{program}",
                f"{question}, epochs of a second, each with a durable checkpoint, against no checkpoint directory "
                "(nothing waits for the disk) and against the same with all state files in memory",
                [
                    Entry("durable", "ours/checkpointing.py", arguments),
                    Entry("no checkpoint directory", "ours/checkpointing.py", [*arguments, "--state", "temporary"]),
                    Entry("in memory", "ours/checkpointing.py", [*arguments, "--state", "memory"]),
                ],
                rate,
                "events/s",
                {"no checkpoint directory": "0.9x", "in memory": "0.9x"},
            )
            for program, question, arguments in (
                ("keyed", "keyed process function, all of 100,000 keys change in an epoch", many(30e6)),
                (
                    "window",
                    "tumbling 10 s window, 1,000 keys",
                    [*many(300e6), "--program", "window", "--keys", "1000", "--epoch-records", "15000000"],
                ),
            )
        ],
        Contest(
            "kafka-sink",
            "records of 100 bytes into Kafka in transactions, against sent at once (at least once), parallelism 2",
            [
                Entry("exactly-once", "ours/kafka_sink.py", many(4e6)),
                Entry("at-least-once", "ours/kafka_sink.py", [*many(4e6), "--delivery", "at-least-once"]),
                Entry("none", "ours/kafka_sink.py", [*many(4e6), "--delivery", "none"]),
            ],
            rate,
            "events/s",
            {"at-least-once": "0.7x", "none": "0.7x"},
        ),
        Contest(
            "guarantees",
            "running sums into files of JSON lines, by the job's guarantee, epochs of 200,000 records, parallelism 2",
            [
                Entry("at-most-once", "ours/guarantees.py", [*many(6e6), "--guarantee", "at-most-once"]),
                Entry("at-least-once", "ours/guarantees.py", [*many(6e6), "--guarantee", "at-least-once"]),
                Entry("exactly-once", "ours/guarantees.py", many(6e6)),
            ],
            rate,
            "events/s",
            {"at-least-once": "1x", "exactly-once": "1x"},
        ),
        Contest(
            "metrics",
            "the keyed benchmark with metrics and a written report, as a share of its rate without, by pairs of runs; "
            "0.97 or more is wanted",
            [Entry("metrics on against off", "ours/metrics_cost.py", many(20e6))],
            lambda line: float(line["ratio"]),
            "of the rate without",
            {},
        ),
        Contest(
            "queryable",
            "running sums of a million keys while 1,000 random keys a second are looked up over HTTP, parallelism 2; "
            "server and client on the same cores",
            [
                Entry("asked at the state", "ours/queryable.py", [*many(20e6), "--ask", "state"]),
                Entry("asked by nobody", "ours/queryable.py", many(20e6)),
                Entry("flushed to Redis, asked there", "ours/queryable.py", [*many(20e6), "--ask", "redis"]),
            ],
            rate,
            "events/s",
            {"asked by nobody": "0.8x", "flushed to Redis, asked there": "1x"},
        ),
        Contest(
            "lookups",
            "single look-ups of a million keys over HTTP on loopback, 8 connections, against GETs of Redis through a "
            "small front on the same server library",
            [
                Entry("flintstream", "ours/queryable_http.py"),
                Entry("redis behind a front", "rivals/redis_front.py"),
            ],
            rate,
            "look-ups/s",
            {"redis behind a front": "1x"},
        ),
        Contest("soak", "a thousand epochs: flat?", [Entry("flintstream", "ours/soak.py")], lambda line: 0.0, "", {}),
    ]


def hold(contest: Contest, repeat: int) -> list[str]:
    """Run a contest and return its lines of the report."""
    print(f"{contest.name}: {contest.question}", flush=True)
    seen: dict[str, list[dict[str, Any]]] = {entry.label: [] for entry in contest.entries}
    for _ in range(repeat):
        for entry in contest.entries:
            entry.environment = "" if entry.environment == "spark-ours" else entry.environment
            line = entry.run()
            if line is not None:
                seen[entry.label].append(line)
                print(f"    {entry.label}: {summary(contest, line)}", flush=True)
    ours = contest.entries[0].label
    report = [
        f"### {contest.name}",
        "",
        contest.question,
        "",
        "| who | median | all runs | ours / theirs | wanted |",
        "|---|---|---|---|---|",
    ]
    base = median(contest, seen[ours])
    for entry in contest.entries:
        value = median(contest, seen[entry.label])
        runs = "; ".join(summary(contest, line) for line in seen[entry.label]) or "failed or not to be had"
        ratio = "" if entry.label == ours or not base or not value else f"{base / value:.2f}x"
        if ratio and "latency" in seen[entry.label][0]:
            ratio = f"p50 {ratio}, p99 {tail(seen[ours]) / tail(seen[entry.label]):.2f}x"
        report.append(
            f"| {entry.label} | {show(value)} {contest.unit} | {runs} | {ratio} "
            f"| {contest.wanted.get(entry.label, '')} |"
        )
    return [*report, ""]


def median(contest: Contest, lines: list[dict[str, Any]]) -> float:
    """Return the median of a program's runs; 0 if there are none."""
    return statistics.median(map(contest.value, lines)) if lines else 0.0


def tail(lines: list[dict[str, Any]]) -> float:
    """Return the median of the runs' 99th percentiles."""
    return statistics.median(float(line["latency"]["p99"]) for line in lines)


def show(value: float) -> str:
    """Return a number as people read it."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def summary(contest: Contest, line: dict[str, Any]) -> str:
    """Return one run in words."""
    for name in ("latency", "seconds_per_micro_batch"):
        if name in line:
            return f"p50 {line[name]['p50']} s, p99 {line[name]['p99']} s"
    if contest.unit == "events/s":
        return f"{show(contest.value(line))}/s"
    return json.dumps({key: value for key, value in line.items() if key not in ("name", "settings")})


def main() -> None:
    parser = argparse.ArgumentParser(description="Flintstream and its rivals, as ratios in one run.")
    parser.add_argument("--only", nargs="*", help="names of contests")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="shorter (0.2) or longer runs")
    parser.add_argument("--write", action="store_true", help="keep the result in bench/RESULTS.md")
    args = parser.parse_args()
    chosen = [contest for contest in contests(args.scale) if not args.only or contest.name in args.only]
    load = os.getloadavg()
    head = [
        "# Results",
        "",
        f"{datetime.date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load at start {load[0]:.1f}; medians of {args.repeat}, scale {args.scale}. Ratios count, not numbers.",
        "",
    ]
    report = [line for contest in chosen for line in hold(contest, args.repeat)]
    text = "\n".join([*head, *report])
    print(text)
    if args.write:
        (HERE / "RESULTS.md").write_text(text + "\n")


if __name__ == "__main__":
    main()
