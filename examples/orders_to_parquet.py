"""Exactly-once files: revenue per shop and minute, written as Parquet; stop it with Ctrl-C, start it again, it goes on.

python examples/orders_to_parquet.py OUTPUT_FOLDER CHECKPOINT_FOLDER
"""

from __future__ import annotations

import sys

from flintstream import (
    FileSink,
    StreamExecutionEnvironment,
    bounded,
    choice,
    count,
    integers,
    sum_of,
    timestamps,
    tumbling,
)


def main(output: str, checkpoints: str, orders: int = 100_000) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_checkpoint_dir(checkpoints)
    made = env.generate(
        {
            "shop": choice(["Aachen", "Bern", "Cork"]),
            "cents": integers(100, 10_000),
            "ts": timestamps("2026-01-01", step_ms=20, jitter_ms=5_000),
        },
        count=orders,
        splits=2,
        watermark=bounded("5s", on="ts"),
    )
    revenue = made.key_by("shop").window(tumbling("1m")).agg(cents=sum_of("cents"), orders=count())
    revenue.sink_to(FileSink.parquet(output)).uid("revenue files")
    env.execute("revenue per minute")


if __name__ == "__main__":
    main(*sys.argv[1:3])
