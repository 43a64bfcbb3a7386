"""Runs the pipelines of tests/differential on real PyFlink and stores what they emit; started by `make record-flink`.

The pipelines are modules that import `flintstream`: here that name stands for `pyflink`, which proves on the way that
they use nothing but what PyFlink has, where PyFlink has it. Needs an interpreter with PyFlink, such as the one that
`bench/rivals/venvs.py flink` makes.

Flink emits watermarks by the clock, so that which records are late depends on the speed of the machine. Here records
come slowly and watermarks every millisecond, with no batching in between: after each record its watermark. Every
pipeline is run twice, if it can in both of PyFlink's modes, and must emit the same each time.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PIPELINES = "tests.differential.pipelines"
PATHS = (
    "",
    ".common",
    ".common.watermark_strategy",
    ".datastream",
    ".datastream.functions",
    ".datastream.state",
    ".datastream.window",
)
SETTINGS = {
    "parallelism.default": "1",
    "pipeline.auto-watermark-interval": "1 ms",
    "execution.buffer-timeout.interval": "0 ms",
    "python.fn-execution.bundle.size": "1",
    "python.executable": sys.executable,
    "python.client.executable": sys.executable,
    "taskmanager.numberOfTaskSlots": "1",
}

# The JVM and the Python processes it starts inherit these; Python inside the JVM finds packages by PYTHONPATH only.
os.environ["PYTHONPATH"] = next(path for path in sys.path if path.endswith("site-packages"))
os.environ["JDK_JAVA_OPTIONS"] = "-Xmx1g"


def stand_in() -> None:
    """Let `flintstream` mean `pyflink`, at every path that pipelines import from."""
    for path in PATHS:
        sys.modules["flintstream" + path] = importlib.import_module("pyflink" + path)


def load() -> Any:
    """Load the modules of the pipelines anew: tags and types keep hold of Java objects, and then cannot be pickled."""
    for name in [name for name in sys.modules if name.startswith(PIPELINES)]:
        del sys.modules[name]
    return importlib.import_module(PIPELINES + ".catalog")


def run(names: list[str], mode: str, pause: float) -> dict[str, list[Any]]:
    """Run some pipelines as one job on a cluster of its own; return what each of them emitted."""
    common, streams = (importlib.import_module("flintstream" + path) for path in (".common", ".datastream"))
    from tests.differential.recordings import to_json  # noqa: PLC0415

    settings = common.Configuration()
    for key, value in {**SETTINGS, "python.execution-mode": mode}.items():
        settings.set_string(key, value)
    env = streams.StreamExecutionEnvironment.get_execution_environment(settings)

    def slowly(record: Any) -> Any:
        time.sleep(pause)
        return record

    catalog = load()
    outputs: list[Any] = []
    for name in names:
        pipeline = catalog.PIPELINES[name]
        # Over an exchange: a source like this one holds a lock while it emits, which timers of its task wait for.
        records = env.from_collection(pipeline.records, catalog.record_type()).rebalance()
        built = pipeline.build(records.map(slowly, catalog.record_type()))
        outputs += [stream.map(to_json(f"{name}/{key}"), common.Types.STRING()) for key, stream in built.items()]
    first, *others = outputs
    emitted: dict[str, list[Any]] = {name: [] for name in names}
    with (first.union(*others) if others else first).execute_and_collect("+".join(names)) as results:
        for result in results:
            path, record = json.loads(result)
            name, key = path.split("/")
            emitted[name].append([key, record])
    return emitted


def record(names: list[str], modes: Sequence[str], pause: float) -> list[str]:
    """Record some pipelines; return what went wrong."""
    from pyflink.version import __version__  # noqa: PLC0415

    from tests.differential import recordings  # noqa: PLC0415

    runs = [run(names, mode, pause) for mode in modes]
    versions = {"flink": __version__, "python": platform.python_version(), "modes": ",".join(modes)}
    problems: list[str] = []
    for name in names:
        first, *others = [recordings.by_key(emitted[name]) for emitted in runs]
        differing = {key for other in others for key in {*first, *other} if first.get(key) != other.get(key)}
        if differing:
            shown = {key: [first.get(key), *(other.get(key) for other in others)] for key in sorted(differing)[:1]}
            problems.append(f"{name}: its runs differ; on a busy machine, raise --pause; {shown}")
            continue
        records = [list(record) for record in load().PIPELINES[name].records]
        recordings.write(name, recordings.Recording(versions, records, runs[0][name]))
    return problems


def record_group(names: list[str], modes: Sequence[str], pause: float) -> list[str]:
    """Record some pipelines; if their job fails, each alone, to see whose fault it was."""
    started = time.monotonic()
    try:
        problems = record(names, modes, pause)
    except Exception as error:
        if len(names) > 1:
            return [problem for name in names for problem in record_group([name], modes, pause)]
        problems = [f"{names[0]}: {type(error).__name__}: {error}"]
    print(f"{len(problems)} problems in {' '.join(names)}; {time.monotonic() - started:.1f} s", flush=True)
    for problem in problems:
        print(problem, flush=True)
    return problems


def main() -> int:
    """Record the pipelines named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="pipelines to record; all without any")
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between records")
    parser.add_argument("--together", type=int, default=8, help="pipelines in one job")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    stand_in()
    import cloudpickle  # noqa: PLC0415

    # Flink's Python processes know neither this folder nor what stands in for what.
    pipelines = load().PIPELINES
    names = arguments.names or list(pipelines)
    cloudpickle.register_pickle_by_value(importlib.import_module("tests.differential"))
    problems: list[str] = []
    for modes in sorted({pipelines[name].modes for name in names}):
        alike = [name for name in names if pipelines[name].modes == modes]
        for start in range(0, len(alike), arguments.together):
            problems += record_group(alike[start : start + arguments.together], modes, arguments.pause)
    print(f"{len(names) - len(problems)} of {len(names)} recorded")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
