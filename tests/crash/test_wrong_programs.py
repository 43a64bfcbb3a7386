"""Programs with a mistake: one clear error each, with the user's line, and no page of Spark's or ours around it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    FileSink,
    FileSource,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from flintstream.errors import (
    CommitError,
    DanglingStreamError,
    DefinitionError,
    DuplicateUidError,
    FlintstreamError,
    SinkError,
    SourceError,
    TypeMismatchError,
    UnknownUidError,
    UnserialisableFunctionError,
    UserFunctionError,
)

HERE = Path(__file__).name
LOCK = threading.Lock()


def line() -> int:
    """Return the number of the caller's line."""
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno


def check_clear(error: FlintstreamError, at: int) -> None:
    """One message that names the user's line, and nothing of Spark or of our insides."""
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    assert f"{HERE}:{at}" in str(error)
    assert (error.location or "").endswith(f"{HERE}:{at}")
    for word in ("py4j", "Py4J", "org.apache", "/flintstream/engine", "/flintstream/spark", "/pyspark/"):
        assert word not in text, text
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__


def test_a_job_without_a_sink(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).map(str).name("Lonely")
    at = line() - 1
    with pytest.raises(DanglingStreamError, match="'Lonely'") as caught:
        env.execute()
    check_clear(caught.value, at)


def test_two_operators_with_one_uid(env: StreamExecutionEnvironment) -> None:
    first = env.from_collection([1]).map(str).uid("same")
    at = line() - 1
    first.map(str).uid("same").print()
    with pytest.raises(DuplicateUidError, match=f"'same'.*{HERE}:{at} and {HERE}:{at + 2}") as caught:
        env.execute()
    check_clear(caught.value, at + 2)


def test_a_function_that_captures_a_lock(env: StreamExecutionEnvironment) -> None:
    def locked(value: int) -> int:
        with LOCK:
            return value

    env.from_collection([1]).map(locked).print()
    at = line() - 1
    with pytest.raises(UnserialisableFunctionError, match=r"variable 'LOCK' is a _thread\.lock") as caught:
        env.execute()
    check_clear(caught.value, at)


@pytest.mark.spark
def test_a_function_that_captures_the_spark_session(spark_session: Any) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(spark=spark_session, runtime="spark")
    env.from_collection([1]).map(lambda n: spark_session.range(n).count()).print()
    at = line() - 1
    with pytest.raises(UnserialisableFunctionError, match=r"variable 'spark_session' is a .*SparkSession") as caught:
        env.execute()
    # The name of a Spark class is the point here.
    assert f"{HERE}:{at}" in str(caught.value)
    assert "only be used in the driver" in str(caught.value)


def test_a_record_that_is_not_of_the_declared_type(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1, 2]).map(lambda n: "two" if n == 2 else n, output_type=Types.INT()).print()
    at = line() - 1
    with pytest.raises(TypeMismatchError, match=r"'two'.*INT") as caught:
        env.execute()
    check_clear(caught.value, at)


class NoDatabase(MapFunction):
    def open(self, runtime_context: Any) -> None:
        message = "no database"
        raise ConnectionError(message)

    def map(self, value: Any) -> Any:
        return value


class FailsLater(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service().register_event_time_timer(10)
        yield value

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield [][timestamp]


def divide(value: int) -> float:
    return 1 / value


DIVIDE = inspect.getsourcelines(divide)[1] + 1
OPEN = inspect.getsourcelines(NoDatabase)[1] + 3
TIMER = inspect.getsourcelines(FailsLater)[1] + 6
RAISING: dict[str, tuple[Callable[[Any], Any], str, int]] = {
    "map": (lambda s: s.map(divide), "ZeroDivisionError: division by zero", DIVIDE),
    "filter": (lambda s: s.filter(divide), "ZeroDivisionError: division by zero", DIVIDE),
    "key selector": (lambda s: s.key_by(divide).sum(), "ZeroDivisionError: division by zero", DIVIDE),
    "partitioner": (lambda s: s.partition_custom(lambda k, n: divide(k), lambda v: v), "ZeroDivisionError", DIVIDE),
    "open": (lambda s: s.map(NoDatabase()), "ConnectionError: no database", OPEN),
    "timer": (lambda s: s.key_by(lambda v: v).process(FailsLater()), "IndexError: list index out of range", TIMER),
    "timestamp assigner": (
        lambda s: s.assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: divide(v))
        ),
        "ZeroDivisionError: division by zero",
        DIVIDE,
    ),
}


@pytest.mark.parametrize("kind", RAISING)
def test_a_function_that_raises(env: StreamExecutionEnvironment, kind: str) -> None:
    declare, said, at = RAISING[kind]
    declare(env.from_collection([1, 0])).print()
    with pytest.raises(UserFunctionError, match=said) as caught:
        env.execute()
    check_clear(caught.value, at)
    assert caught.value.user_traceback.count("Traceback") == 1
    assert f'{HERE}", line {at}' in caught.value.user_traceback


def test_a_corrected_function_goes_on_from_the_checkpoint(new_env: Callable[..., Any], tmp_path: Path) -> None:
    """Also where the same worker processes had opened the wrong one."""

    def run(version: str, refused: int | None) -> None:
        def check(value: int, state: int | None) -> tuple[tuple[str, int], int]:
            if value == refused:
                raise ValueError(value)
            return (version, value), (state or 0) + 1

        env = new_env(checkpoint_dir=tmp_path / "checkpoints", max_records=100)
        numbers = env.generate(generator=lambda i: i, count=1_000, splits=2)
        checked = numbers.key_by(lambda value: value % 50).map_with_state(check).uid("check")
        checked.sink_to(FileSink.json(tmp_path / "out")).uid("files")
        env.execute("corrected")

    with pytest.raises(UserFunctionError, match="ValueError: 555"):
        run("first", refused=555)
    run("second", refused=None)
    lines = [text for p in (tmp_path / "out").glob("part-*") for text in p.read_text().splitlines()]
    rows = [tuple(json.loads(text).values()) for text in lines]
    assert sorted(rows, key=lambda row: row[1]) == [("first" if n < 500 else "second", n) for n in range(1_000)]


def test_a_generator_that_raises(env: StreamExecutionEnvironment) -> None:
    env.generate(generator=divide, count=2).print()
    with pytest.raises(UserFunctionError, match="ZeroDivisionError: division by zero") as caught:
        env.execute()
    check_clear(caught.value, DIVIDE)


def test_a_key_field_that_records_do_not_have(env: StreamExecutionEnvironment) -> None:
    env.from_collection([{"a": 1}]).key_by("b").sum("a").print()
    at = line() - 1
    with pytest.raises(DefinitionError, match="no field 'b'") as caught:
        env.execute()
    check_clear(caught.value, at)


class Counts(ProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield value


def test_state_on_a_stream_without_keys(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).process(Counts()).print()
    at = line() - 1
    with pytest.raises(DefinitionError, match=r"state 'count'.*without keys.*key_by") as caught:
        env.execute()
    check_clear(caught.value, at)


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_an_input_path_that_does_not_exist(env: StreamExecutionEnvironment, tmp_path: Path, form: str) -> None:
    missing = tmp_path / "missing"
    env.from_source(getattr(FileSource, form)(str(missing))).print()
    at = line() - 1
    with pytest.raises(SourceError, match=str(missing)) as caught:
        env.execute()
    check_clear(caught.value, at)


def count_numbers(env: StreamExecutionEnvironment, output: Path, uid: str = "total") -> None:
    numbers = env.generate(generator=lambda i: (i % 3_000, "x" * 100), count=6_000, splits=1)
    counts = numbers.key_by(lambda pair: pair[0]).map_with_state(remember).uid(uid)
    counts.sink_to(FileSink.json(output)).uid("files")


def remember(value: Any, state: Any) -> tuple[tuple[int, int], Any]:
    count = 1 if state is None else state[0] + 1
    return (value[0], count), (count, f"{value[0]:04d}" * 50)


def test_state_of_an_operator_that_the_program_no_longer_has(new_env: Callable[..., Any], tmp_path: Path) -> None:
    checkpoints, output = tmp_path / "checkpoints", tmp_path / "out"
    env = new_env(checkpoint_dir=checkpoints, max_records=2_000)
    count_numbers(env, output)
    env.execute("numbers")
    env = new_env(checkpoint_dir=checkpoints, max_records=2_000)
    count_numbers(env, output, uid="renamed")
    with pytest.raises(UnknownUidError, match=r"'total'.*'renamed'"):
        env.execute("numbers")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.getuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", disk], check=False).returncode
    ):
        pytest.skip("a small file system can only be mounted by root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def enlarge(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)


@pytest.mark.parametrize(("full", "expected"), [("checkpoints", CommitError), ("output", SinkError)])
def test_a_full_disk_loses_nothing(
    new_env: Callable[..., Any], small_disk: Path, tmp_path: Path, full: str, expected: type[FlintstreamError]
) -> None:
    checkpoints = (small_disk if full == "checkpoints" else tmp_path) / "checkpoints"
    output = (small_disk if full == "output" else tmp_path) / "out"
    # Some epochs fit; then somebody else fills the disk.
    settings = {"checkpoint_dir": checkpoints, "max_records": 1_000}

    def run() -> None:
        env = new_env(**settings)
        count_numbers(env, output)
        env.execute("numbers")

    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(480 << 10 if full == "output" else 100 << 10))
    with pytest.raises(expected, match="No space left on device") as caught:
        run()
    assert "Errno" not in str(caught.value) or full == "checkpoints"
    visible = sorted(p.name for p in output.glob("part-*"))
    ballast.unlink()
    enlarge(small_disk)
    run()
    assert set(visible) <= {p.name for p in output.glob("part-*")}
    lines = [text for p in output.glob("part-*") for text in p.read_text().splitlines()]
    expected_lines = {f'{{"f0":{key},"f1":{count}}}' for key in range(3_000) for count in (1, 2)}
    assert len(lines) == 6_000 and set(lines) == expected_lines


def test_an_error_that_nobody_catches_is_short(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from flintstream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment(runtime='local')\n"
        "env.from_collection([0]).map(lambda n: 1 / n).print()\n"
        "env.execute()\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and not done.stdout
    assert f"{program}:3" in done.stderr
    assert "During handling of the above exception" not in done.stderr
    assert "direct cause" not in done.stderr
