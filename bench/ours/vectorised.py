"""A stateless map of numbers in Flintstream, record by record or vectorised: `--way record|arrow|numpy|pandas`.

Everything else is the same: source, sink, epochs. Run it once for each way and compare.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
import pyarrow.compute as pc
from report import argument_parser, emit, steady

from flintstream import NumberSequenceSource, StreamExecutionEnvironment, Types, WatermarkStrategy, vectorized
from flintstream.connectors.discard import DiscardingSink


def by_record(number: int) -> int:
    return number * 3 + 1


def on_columns(numbers: Any) -> Any:
    return numbers * 3 + 1


def on_arrow(numbers: Any) -> Any:
    return pc.add(pc.multiply(numbers, 3), 1)  # pyright: ignore[reportAttributeAccessIssue]


WAYS: dict[str, Any] = {
    "record": by_record,
    "arrow": vectorized("arrow")(on_arrow),
    "numpy": vectorized("numpy")(on_columns),
    "pandas": vectorized("pandas")(on_columns),
}


def main() -> None:
    parser = argument_parser(__doc__, events=20_000_000, keys=1)
    parser.add_argument("--way", choices=tuple(WAYS), default="numpy")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []

    def sample(manifest: Any, reports: Any, seconds: float) -> None:
        samples.append((time.monotonic(), max(c.get("in", 0) for c in manifest.counters.values())))

    env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
    env.set_parallelism(args.parallelism).add_listener(sample)
    source = NumberSequenceSource(0, args.events - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.map(WAYS[args.way]).sink_to(DiscardingSink())
    env.execute("map")
    count, seconds = steady(samples, args.warmup * args.events)
    emit(f"flintstream map, {args.way}", count, seconds, vars(args))


if __name__ == "__main__":
    main()
