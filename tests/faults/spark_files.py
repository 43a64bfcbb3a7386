"""The same faults in a job whose input Spark itself reads: files, as a stream with offsets in a checkpoint of Spark's.

There a crash may also fall between our commit and Spark's own, so that a batch comes again which is committed already.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintstream import Configuration, FileSink, FileSource, StreamExecutionEnvironment, bounded, tumbling
from flintstream.errors import FlintstreamError
from flintstream.spark import submit
from tests.crash.ports import FaultyStorage
from tests.faults.matrix import RETAINED, Case, files_in, points_of
from tests.faults.points import OnPurposeError, Points
from tests.faults.ports import FaultySink, FaultySource, ParcelSink
from tests.faults.programs import Collected, Summed, Touch

FILES = 6
WINDOW_MS = 2_000
PROGRAM = "files on Spark"
STEPS = (
    "function",
    "update",
    "result",
    "put",
    "prepare done",
    "write epochs",
    "create manifests",
    "create manifests done",
    "commit",
    "commit done",
    "told",
    "delete manifests",
)
"""All steps but those of a source of ours."""
TIMES = {"function": 100, "update": 100, "result": 10}
"""The how manyth time a step is hit, if not the second."""
MOST_LIVES = 4


class InOrder(Summed):
    """Tells a window's records in the order of their numbers, since files are read by several tasks at once."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[dict[str, Any]]:
        (records,) = elements
        ordered = sorted(records, key=lambda record: (record["n"], record["ts"]))
        yield from super().process(key, context, [ordered])


def all_records() -> list[dict[str, Any]]:
    """Return the records in about the order of time."""
    sources = [FaultySource(Points("nowhere"), name, ballast=1) for name in ("left", "right")]
    return [source.record(split, n) for n in range(sources[0].count) for source in sources for split in range(2)]


def write_input(folder: Path) -> None:
    """Write the records into files, dated in the order in which they shall be read."""
    folder.mkdir(parents=True, exist_ok=True)
    records = all_records()
    share = len(records) // FILES
    for number in range(FILES):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(records[number * share : (number + 1) * share]), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def declare(env: StreamExecutionEnvironment, points: Points, folder: Path) -> None:
    env.set_parallelism(2)
    source = FileSource.parquet(str(folder / "input"), files_per_epoch=1)
    stream = env.from_source(source, bounded("300ms", on="ts"), "files").uid("input")
    touched = stream.map(Touch(points, "function")).uid("touched")
    windows = touched.key_by("key").window(tumbling(f"{WINDOW_MS}ms"))
    results = windows.aggregate(Collected(points), InOrder(points)).uid("windows")
    results.sink_to(FaultySink(FileSink.json(folder / "output" / "files"), points)).uid("files")
    results.sink_to(FaultySink(ParcelSink(str(folder / "output" / "parcels")), points)).uid("parcels")


def run_files(session: Any, case: Case, folder: Path, driver: int) -> None:
    """Run the job to its end, as a user would, over a storage with faults."""
    points = points_of(case, folder, driver)
    Path(points.folder).mkdir(parents=True, exist_ok=True)
    if not (folder / "input").exists():
        write_input(folder / "input")
    opened: Any = submit.storage_at
    for _ in range(MOST_LIVES):
        settings = Configuration.from_dict({"execution.checkpointing.num-retained": str(RETAINED)})
        env = StreamExecutionEnvironment.get_execution_environment(settings, spark=session, runtime="spark")
        env.set_checkpoint_dir(str(folder / "checkpoints")).add_listener(lambda *_: points.reach("told"))
        declare(env, points, folder)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submit, "storage_at", lambda *given, **named: _faulty(opened(*given, **named), points))
            try:
                env.execute(PROGRAM)
                return
            except (OnPurposeError, FlintstreamError) as error:
                if "on purpose" not in str(error):
                    raise
    raise AssertionError(f"the job did not come to its end: {points.hits()}")


def _faulty(storage: Any, points: Any) -> Any:
    return FaultyStorage(storage, points)


def judge_files(case: Case, folder: Path) -> None:
    """Check the output against sums that are made here."""
    hits = points_of(case, folder).hits()
    assert len(hits) == len(case.faults), f"{case}: only these were hit: {list(map(str, hits))}"
    found = files_in(folder / "output")
    for sink in ("files", "parcels"):
        lines = [line for name, data in found.items() if name.startswith(sink) for line in data.decode().splitlines()]
        rows = Counter("".join(line.split()) for line in lines)
        assert rows == expected(), f"{case}: {sink}: lost {expected() - rows}, duplicated {rows - expected()}"


def expected() -> Counter[str]:
    by_window: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for record in all_records():
        by_window.setdefault((record["key"], record["ts"] // WINDOW_MS * WINDOW_MS), []).append(record)
    rows: Counter[str] = Counter()
    for (key, start), records in by_window.items():
        numbers = ",".join(str(record["n"]) for record in sorted(records, key=lambda each: (each["n"], each["ts"])))
        weight = sum(sum(record["ballast"]) for record in records)
        rows[f'{{"key":{key},"ts":{start},"numbers":"{numbers}","weight":{weight}}}'] += 1
    return rows
