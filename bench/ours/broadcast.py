"""Enrichment by broadcast state, and a plain map that does the same with a constant: `--shape broadcast | map`.

Each number is looked up in a table of `--keys` names and emitted with its name. The table comes as a broadcast stream
(all of it at the start, and with `--changes` so many changes later) or is a dict that the map's function has with it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from report import KEY_MULTIPLIER, argument_parser, emit, scratch, steady

from flintstream import (
    BroadcastProcessFunction,
    DataStream,
    MapStateDescriptor,
    NumberSequenceSource,
    StreamExecutionEnvironment,
    Types,
    WatermarkStrategy,
)
from flintstream.connectors.discard import DiscardingSink

NAMES = MapStateDescriptor("names", Types.LONG(), Types.STRING())


class Enrich(BroadcastProcessFunction):
    """Gives a number the name of its key."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def process_broadcast_element(self, value: tuple[int, str], ctx: BroadcastProcessFunction.Context) -> None:
        ctx.get_broadcast_state(NAMES).put(*value)

    def process_element(
        self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext
    ) -> Iterator[tuple[int, str | None]]:
        yield value, ctx.get_broadcast_state(NAMES).get(value * KEY_MULTIPLIER % self._keys)


def enriched(env: StreamExecutionEnvironment, numbers: DataStream, keys: int, changes: int, shape: str) -> DataStream:
    """Return the numbers with their names."""
    output_type = Types.TUPLE([Types.LONG(), Types.STRING()])
    if shape == "map":
        names = {key: f"name {key}" for key in range(keys)}
        return numbers.map(lambda n: (n, names.get(n * KEY_MULTIPLIER % keys)), output_type=output_type)
    table = [(key % keys, f"name {key}") for key in range(keys + changes)]
    known = env.from_collection(table, Types.TUPLE([Types.LONG(), Types.STRING()])).broadcast(NAMES)
    return numbers.connect(known).process(Enrich(keys), output_type=output_type)


def main() -> None:
    parser = argument_parser(__doc__, events=20_000_000, keys=1_000)
    parser.add_argument("--shape", choices=("broadcast", "map"), default="broadcast")
    parser.add_argument("--changes", type=int, default=0, help="pairs that are set again, besides those at the start")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    samples: list[tuple[float, int]] = []

    def sample(manifest, reports, seconds) -> None:
        samples.append((time.monotonic(), max(c.get("out", 0) for c in manifest.counters.values())))

    with scratch("broadcast-flintstream") as directory:
        env = StreamExecutionEnvironment.get_execution_environment(runtime=args.runtime)
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory))
        env.add_listener(sample)
        numbers = env.from_source(
            NumberSequenceSource(0, args.events - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        enriched(env, numbers, args.keys, args.changes, args.shape).sink_to(DiscardingSink())
        env.execute("enrichment")
    count, seconds = steady(samples, args.warmup * args.events)
    emit(f"flintstream {args.shape}", count, seconds, vars(args))


if __name__ == "__main__":
    main()
