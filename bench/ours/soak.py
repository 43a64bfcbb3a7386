"""A thousand epochs: does anything grow? Memory of driver, JVM and workers, files in the checkpoint, epoch time."""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from keyed import RunningSum
from report import argument_parser, scratch, spread

from flintstream import Configuration, NumberSequenceSource, StreamExecutionEnvironment
from flintstream.connectors.discard import DiscardingSink


def memory() -> dict[str, int]:
    """Return MB resident: this driver, the JVM, and all Python workers together."""
    me = psutil.Process()
    found = {"driver": me.memory_info().rss >> 20, "jvm": 0, "workers": 0}
    for child in me.children(recursive=True):
        try:
            name, size = child.name(), child.memory_info().rss >> 20
        except psutil.NoSuchProcess:
            continue
        found["jvm" if "java" in name else "workers"] += size
    return found


def main() -> None:
    parser = argument_parser(__doc__, events=1_000, keys=1_000)
    parser.add_argument("--epochs", type=int, default=1_000)
    args = parser.parse_args()
    times: list[float] = []
    sizes: list[dict[str, int]] = []
    files: list[int] = []
    enough = threading.Event()
    with scratch("soak") as directory:

        def sample(manifest, reports, seconds) -> None:
            times.append(time.perf_counter())
            if manifest.epoch % 50 == 0:
                sizes.append(memory())
                files.append(sum(1 for path in Path(directory).rglob("*") if path.is_file()))
            if manifest.epoch >= args.epochs:
                enough.set()

        settings = Configuration().set_integer("flintstream.epoch.max-records", args.events)
        env = StreamExecutionEnvironment.get_execution_environment(settings)
        env.set_parallelism(args.parallelism)
        env.set_checkpoint_dir(str(directory))
        env.add_listener(sample)
        keys = args.keys
        numbers = env.from_source(NumberSequenceSource(0, 10**12))
        numbers.key_by(lambda number: number % keys).process(RunningSum()).sink_to(DiscardingSink())
        job = env.execute_async("soak")
        enough.wait(3600)
        job.cancel().result()
    spans = [after - before for before, after in itertools.pairwise(times)]
    tenth = max(1, len(spans) // 10)
    print(
        json.dumps(
            {
                "name": "flintstream soak",
                "epochs": len(times),
                "first_tenth": spread(spans[tenth : 2 * tenth]),
                "last_tenth": spread(spans[-tenth:]),
                "memory_mb": [sizes[2], sizes[len(sizes) // 2], sizes[-1]] if len(sizes) > 3 else sizes,
                "files": [files[0], files[len(files) // 2], files[-1]] if files else [],
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
