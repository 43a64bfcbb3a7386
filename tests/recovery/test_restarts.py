"""A job that fails goes on by itself in its own process: from its last checkpoint, as often as the strategy says."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flintstream import (
    CollectSink,
    Committer,
    Configuration,
    JobStatus,
    KeyedProcessFunction,
    MapFunction,
    RestartStrategies,
    Sink,
    SinkWriter,
    Split,
    SplitSource,
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
    WriterContext,
)
from flintstream.connectors.driver_sinks import CollectSink as Inner
from flintstream.engine.restart import may_pass
from flintstream.errors import (
    CorruptStateError,
    DefinitionError,
    FencedError,
    IncompatibleStateError,
    LeaseError,
    LostRuntimeError,
    SinkError,
    SourceError,
    UserFunctionError,
)

AT_ONCE = RestartStrategies.fixed_delay_restart(3, 0)
WAIT_SECONDS = 60


class Flaky:
    """Fails so many times, counted in a folder, so that it does not matter in which process."""

    def __init__(self, folder: Path, times: int, error: type[Exception] = ValueError) -> None:
        self._folder = folder
        self._times = times
        self._error = error
        folder.mkdir(parents=True, exist_ok=True)

    def check(self) -> None:
        done = len(list(self._folder.iterdir()))
        if done < self._times:
            (self._folder / str(done)).touch()
            msg = f"failure {done + 1}"
            raise self._error(msg)

    @property
    def failures(self) -> int:
        return len(list(self._folder.iterdir()))


class FlakyCount(KeyedProcessFunction):
    """Counts per key, and keeps a count of its own beside state, which must not survive a restart."""

    def __init__(self, flaky: Flaky, at: int) -> None:
        self._flaky = flaky
        self._at = at
        self._calls = 0

    def open(self, runtime_context: Any) -> None:
        self._seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        count = (self._seen.value() or 0) + 1
        self._seen.update(count)
        self._calls += 1
        if value == self._at:
            self._flaky.check()
        yield value % 3, count


def declare(env: StreamExecutionEnvironment, flaky: Flaky, sink: Sink, at: int = 47) -> None:
    numbers = env.generate(generator=lambda i: i, count=60, splits=2)
    numbers.key_by(lambda n: n % 3).process(FlakyCount(flaky, at)).uid("count").sink_to(sink)


EXPECTED = sorted((key, count) for key in range(3) for count in range(1, 21))


def test_a_function_that_raises_is_run_again_from_the_last_checkpoint(new_env, tmp_path, caplog):
    flaky, sink = Flaky(tmp_path / "failures", 2), CollectSink()
    env = new_env(max_records=10, checkpoint_dir=tmp_path / "checkpoints").set_restart_strategy(AT_ONCE)
    declare(env, flaky, sink)
    with caplog.at_level(logging.WARNING, "flintstream"):
        env.execute("again")
    assert flaky.failures == 2
    assert sorted(sink.results) == EXPECTED
    warnings = [record.getMessage() for record in caplog.records if "restart" in record.getMessage()]
    assert len(warnings) == 2
    assert "ValueError: failure 1" in warnings[0] and "restart 1 behind epoch 4 in 0ms" in warnings[0]


def test_a_job_without_a_directory_keeps_its_state_over_a_restart(new_env, tmp_path):
    flaky, sink = Flaky(tmp_path / "failures", 1), CollectSink()
    env = new_env(max_records=10).set_restart_strategy(AT_ONCE)
    declare(env, flaky, sink)
    env.execute()
    assert sorted(sink.results) == EXPECTED


@pytest.mark.spark
def test_a_stream_of_sparks_goes_on_behind_the_batch_that_failed(make_env, spark_session, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(4):
        (tmp_path / "in" / f"{number}.txt").write_text("".join(f"{n}\n" for n in range(number * 10, number * 10 + 10)))
    flaky, sink = Flaky(tmp_path / "failures", 1), CollectSink()
    env = make_env("spark", checkpoint_dir=tmp_path / "checkpoints").set_restart_strategy(AT_ONCE)
    reader = spark_session.readStream.schema("value STRING").option("maxFilesPerTrigger", 1)
    lines = env.from_dataframe(reader.text(str(tmp_path / "in")).selectExpr("CAST(value AS INT) AS value"))
    numbers = lines.map(lambda row: row.value)
    numbers.key_by(lambda n: n % 3).process(FlakyCount(flaky, 25)).sink_to(sink)
    read = threading.Event()
    env.add_listener(lambda *_: read.set() if len(sink.results) == 40 else None)
    client = env.execute_async()
    assert read.wait(WAIT_SECONDS), client.get_job_execution_result().exception()
    client.cancel().result(WAIT_SECONDS)
    assert flaky.failures == 1
    assert sorted(sink.results) == sorted((n % 3, n // 3 + 1) for n in range(40))


def test_when_the_strategy_gives_up_the_job_fails_with_the_last_error(make_env, tmp_path):
    flaky = Flaky(tmp_path / "failures", 100)
    env = make_env("local", max_records=10).set_restart_strategy(AT_ONCE)
    declare(env, flaky, CollectSink())
    with pytest.raises(UserFunctionError, match="failure 4") as caught:
        env.execute()
    assert flaky.failures == 4
    assert any("no further restart by fixed-delay (attempts 3, delay 0ms)" in note for note in caught.value.__notes__)


def test_without_a_strategy_the_first_failure_is_the_end(make_env, tmp_path):
    flaky = Flaky(tmp_path / "failures", 100)
    env = make_env("local")
    declare(env, flaky, CollectSink())
    with pytest.raises(UserFunctionError, match="failure 1"):
        env.execute()
    assert flaky.failures == 1


def test_the_keys_of_a_configuration_say_the_same(make_env, tmp_path):
    flaky, sink = Flaky(tmp_path / "failures", 3), CollectSink()
    keys = {"type": "exponential-delay", "exponential-delay.initial-backoff": "1 ms"}
    env = make_env("local", settings={f"restart-strategy.{key}": value for key, value in keys.items()})
    declare(env, flaky, sink)
    env.execute()
    assert sorted(sink.results) == EXPECTED


class FlakySource(SplitSource):
    """A source that sometimes cannot be reached: when the job starts, or when it reads."""

    is_bounded = True

    def __init__(self, starts: Flaky, reads: Flaky) -> None:
        self._starts = starts
        self._reads = reads

    def splits(self, parallelism: int) -> list[Split]:
        self._starts.check()
        return [Split(0, 0, 60)]

    def read(self, split: int, start: int, end: int) -> list[int]:
        if start >= 30:
            self._reads.check()
        return list(range(start, end))


def test_a_source_that_cannot_be_reached_for_a_while(make_env, tmp_path):
    starts, reads = Flaky(tmp_path / "starts", 1, SourceError), Flaky(tmp_path / "reads", 2, ConnectionError)
    sink = CollectSink()
    env = make_env("local", max_records=10).set_restart_strategy(AT_ONCE)
    env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(0)
    env.from_source(FlakySource(starts, reads)).sink_to(sink)
    env.execute()
    assert (starts.failures, reads.failures) == (1, 2)
    assert sink.results == list(range(60))


def test_a_source_that_cannot_be_reached_at_the_start_is_told_at_once_without_a_strategy(make_env, tmp_path):
    env = make_env("local")
    env.from_source(FlakySource(Flaky(tmp_path / "starts", 1, SourceError), Flaky(tmp_path / "reads", 0))).print()
    with pytest.raises(SourceError, match="failure 1"):
        env.execute_async()


class FlakySink(Sink):
    """Collects, and sometimes cannot publish, before or after it has."""

    def __init__(self, before: Flaky, after: Flaky) -> None:
        self.inner = Inner()
        self._before = before
        self._after = after

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self.inner.create_writer(context)

    def create_committer(self) -> Committer:
        return _FlakyCommitter(self.inner.create_committer(), self._before, self._after)


class _FlakyCommitter(Committer):
    def __init__(self, inner: Committer, before: Flaky, after: Flaky) -> None:
        self._inner, self._before, self._after = inner, before, after

    def commit(self, job: str, uid: str, epoch: int, committables: Any) -> None:
        if epoch == 3:
            self._before.check()
        self._inner.commit(job, uid, epoch, committables)
        if epoch == 3:
            self._after.check()


def test_a_sink_that_could_not_publish_publishes_after_the_restart(make_env, tmp_path):
    before, after = Flaky(tmp_path / "before", 1, ConnectionError), Flaky(tmp_path / "after", 1, SinkError)
    sink = FlakySink(before, after)
    env = make_env("local", max_records=10).set_restart_strategy(AT_ONCE)
    env.generate(generator=lambda i: i, count=60, splits=1).sink_to(sink)
    env.execute()
    assert (before.failures, after.failures) == (1, 1)
    assert sink.inner.results == list(range(60))


def test_what_was_printed_is_not_printed_again(make_env, tmp_path, capsys):
    flaky = Flaky(tmp_path / "failures", 2)

    def sometimes(n: int) -> int:
        if n == 4:
            flaky.check()
        return n

    env = make_env("local", 1, max_records=2).set_restart_strategy(AT_ONCE)
    env.from_collection(range(6)).map(sometimes).print()
    env.execute()
    assert capsys.readouterr().out.split() == [str(n) for n in range(6)]


class Opened(MapFunction):
    """Counts in its own attribute, which a new attempt begins anew."""

    def __init__(self, flaky: Flaky) -> None:
        self._flaky = flaky
        self._calls = 0

    def map(self, value: int) -> int:
        self._calls += 1
        if value == 5:
            self._flaky.check()
        return self._calls


def test_a_functions_own_attributes_begin_anew(make_env, tmp_path):
    sink = CollectSink()
    env = make_env("local", 1, max_records=2).set_restart_strategy(AT_ONCE)
    env.from_collection(range(8)).map(Opened(Flaky(tmp_path / "failures", 1))).sink_to(sink)
    env.execute()
    # Epochs of two: the third one fails, and begins again with a new function.
    assert sink.results == [1, 2, 3, 4, 1, 2, 3, 4]


def test_a_job_that_waits_for_its_restart_says_so_and_can_be_cancelled(make_env, tmp_path):
    flaky = Flaky(tmp_path / "failures", 100)
    env = make_env("local").set_restart_strategy(RestartStrategies.fixed_delay_restart(5, "1h"))
    declare(env, flaky, CollectSink())
    client = env.execute_async()
    while client.get_job_status().result() is not JobStatus.RESTARTING:
        assert not client.get_job_execution_result().done()
        time.sleep(0.001)
    client.cancel().result(WAIT_SECONDS)
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert flaky.failures == 1


def test_only_what_may_pass_is_tried_again():
    assert all(
        may_pass(error) for error in (UserFunctionError(""), SourceError(""), SinkError(""), OSError(), ValueError())
    )
    # A new process may find what this one has lost.
    assert may_pass(LostRuntimeError(""))
    lasting = (DefinitionError, IncompatibleStateError, CorruptStateError, FencedError, LeaseError)
    assert not any(may_pass(error("")) for error in lasting)
    assert not may_pass(KeyboardInterrupt())


def test_a_program_that_does_not_fit_its_state_is_not_tried_again(make_env, tmp_path, caplog):
    folder = tmp_path / "checkpoints"
    for key_groups in (64, 32):
        env = make_env("local", checkpoint_dir=folder).set_restart_strategy(AT_ONCE).set_max_parallelism(key_groups)
        declare(env, Flaky(tmp_path / "failures", 0), CollectSink())
        if key_groups == 64:
            env.execute()
            continue
        with caplog.at_level(logging.WARNING, "flintstream"), pytest.raises(IncompatibleStateError):
            env.execute()
    assert "restart" not in caplog.text


def test_settings_go_by_configure_too(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    env.configure(Configuration.from_dict({"restart-strategy.type": "off"}))
    assert env.get_restart_strategy().get_description() == "none"
