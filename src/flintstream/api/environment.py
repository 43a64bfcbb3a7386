"""`StreamExecutionEnvironment`: where a program begins, with its sources, and where it enters a runtime.

Flink: pyflink.datastream.StreamExecutionEnvironment. The only file that imports a runtime, and only when a job starts:
workers that load this package for a function must not load the driver's side, and a program on `local` needs no Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

from flintstream.api.arguments import TypeLike, read_type, refuse, require
from flintstream.api.checkpoint_root import settled
from flintstream.api.configure import apply_configuration, apply_given
from flintstream.api.datastream import DataStream
from flintstream.api.dead_letters import read_default
from flintstream.api.frames import read_frame
from flintstream.api.no_effect import without_effect
from flintstream.api.program import Program
from flintstream.api.restart import read_restart
from flintstream.api.savepoints import check_path, read_start
from flintstream.api.settings import JobSettings, check_guarantee, check_runtime
from flintstream.api.stream import Origin
from flintstream.api.time_travel import excerpt_of
from flintstream.connectors.collection import CollectionSource
from flintstream.connectors.datagen import DataGeneratorSource
from flintstream.connectors.datagen_fields import Field
from flintstream.engine.restart_log import of_this_process
from flintstream.errors import InvalidArgumentError, describe
from flintstream.graph.location import users_line
from flintstream.graph.nodes import SourceNode, Upstream
from flintstream.model.config import CheckpointingMode, Configuration, RuntimeExecutionMode
from flintstream.model.connect import Sink, Source
from flintstream.model.delivery import DeliveryGuarantee
from flintstream.model.job import JobClient
from flintstream.model.location import refused
from flintstream.model.positions import PlaceLike
from flintstream.model.restart import RestartStrategies, RestartStrategyConfiguration, keys_of
from flintstream.model.time import DurationLike
from flintstream.model.watermarks import WatermarkStrategy
from flintstream.planner.plan import Plan

RUNTIME_VARIABLE = "FLINTSTREAM_RUNTIME"
SETTINGS_VARIABLE = "FLINTSTREAM_SETTINGS"
IMPOSED_VARIABLE = "FLINTSTREAM_IMPOSED"


class StreamExecutionEnvironment(Program):
    """Declares sources, holds the settings, and runs what was declared.

    >>> from flintstream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    >>> _ = env.from_collection(["to be", "or not"]).flat_map(str.split).print()
    >>> _ = env.execute("words")
    to
    be
    or
    not
    """

    @staticmethod
    def get_execution_environment(
        configuration: Configuration | None = None, *, spark: Any = None, runtime: str | None = None
    ) -> StreamExecutionEnvironment:
        """Return a new environment.

        Args:
            configuration: Settings by Flink's names; those that begin with `spark.` go to the Spark session.
            spark: A SparkSession of your own, instead of one that is started for you.
            runtime: "spark", or "local" for the in-process runtime; otherwise the variable FLINTSTREAM_RUNTIME decides.
        """
        settings = JobSettings(runtime=check_runtime(os.environ.get(RUNTIME_VARIABLE) or "spark"), session=spark)
        apply_given(settings, os.environ.get(SETTINGS_VARIABLE))
        if configuration is not None:
            apply_configuration(settings, require(configuration, Configuration, "a Configuration", "pass one"))
        if runtime is not None:
            settings.runtime = check_runtime(runtime)
        return StreamExecutionEnvironment(settings)

    def _impose(self) -> None:
        apply_given(self._settings, os.environ.get(IMPOSED_VARIABLE))

    def configure(self, configuration: Configuration) -> None:
        """Take over all settings of a configuration."""
        apply_configuration(self._settings, configuration)

    def set_parallelism(self, parallelism: int) -> Self:
        """Set the parallelism of operators that name none; without it, it is the number of cores."""
        self.get_config().set_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """Return the parallelism of operators that name none."""
        return self._settings.default_parallelism()

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Set the number of key groups, 128 by default; it stays the same for the life of a job's state."""
        self.get_config().set_max_parallelism(max_parallelism)
        return self

    def get_max_parallelism(self) -> int:
        """Return the number of key groups."""
        return self._settings.max_parallelism

    def set_runtime_mode(self, execution_mode: RuntimeExecutionMode) -> Self:
        """Choose between STREAMING (the default), BATCH for bounded inputs, and AUTOMATIC."""
        remedy = "pass RuntimeExecutionMode.STREAMING, BATCH or AUTOMATIC"
        self._settings.mode = require(execution_mode, RuntimeExecutionMode, "a RuntimeExecutionMode", remedy)
        return self

    def enable_checkpointing(self, interval: DurationLike, mode: CheckpointingMode | None = None) -> Self:
        """Set the least time between the starts of two epochs; below what an epoch takes they run back to back."""
        config = self.get_checkpoint_config().set_checkpoint_interval(interval)
        if mode is not None:
            config.set_checkpointing_mode(mode)
        return self

    def get_checkpoint_interval(self) -> int:
        """Return the least time between the starts of two epochs in ms, -1 if none was set."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return AT_LEAST_ONCE if that is what is asked of sinks, else EXACTLY_ONCE."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def set_guarantee(self, guarantee: DeliveryGuarantee | str) -> Self:
        """Ask all sinks that were told nothing themselves for a guarantee.

        "exactly-once": a job whose sinks cannot do that is refused. "at-least-once", "at-most-once": a sink that can do
        neither that nor exactly once is refused. State counts every record exactly once in any case.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local").set_checkpoint_dir("state")
        >>> _ = env.set_guarantee("at-most-once").from_collection([1, 2]).print()
        >>> env.guarantee().guarantee.value
        'at-most-once'
        """
        self._settings.guarantee = check_guarantee(guarantee)
        return self

    def set_on_error(self, action: str | Sink, errors: type[Exception] | Sequence[type[Exception]] = Exception) -> Self:
        """Choose what becomes of records on which a function raises, where `on_error(...)` of an operator says nothing.

        Args:
            action: "fail" the job, "skip" the record, or a Sink, which gets all dead letters of the job as text.
            errors: The exceptions that are a record's fault; any other fails the job.
        """
        self._settings.dead_letters = read_default(action, errors)
        return self

    def set_checkpoint_dir(self, path: str, storage_options: Mapping[str, Any] | None = None) -> Self:
        """Keep checkpoints in this directory; a job that finds some there goes on from the newest.

        Args:
            path: A directory that driver and workers share, or the address of one on an object store such as
                `s3://bucket/job` (with fsspec's package for it).
            storage_options: What fsspec's file system must know, such as `{"key": ..., "secret": ...}`; never logged.
        """
        if storage_options and "://" not in str(path):
            what = f"storage_options say how to reach a file system, but {str(path)!r} is on this machine"
            raise refused(InvalidArgumentError, what, "leave them out")
        self.get_checkpoint_config().set_checkpoint_storage_dir(path)
        self._settings.storage_options = dict(storage_options or {})
        return self

    def set_restart_strategy(self, restart_strategy_configuration: RestartStrategyConfiguration) -> Self:
        """Start a job that failed again, from its last checkpoint, as the strategy says; without one it has failed.

        >>> from flintstream import RestartStrategies, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, "10s")).get_restart_strategy().name
        'fixed-delay'
        """
        remedy = "pass RestartStrategies.fixed_delay_restart(...), say"
        kind, wanted = RestartStrategyConfiguration, "a restart strategy"
        self._settings.restart = keys_of(require(restart_strategy_configuration, kind, wanted, remedy))
        return self

    def get_restart_strategy(self) -> RestartStrategyConfiguration:
        """Return when a job that failed is started again."""
        return read_restart(self._settings.restart) or RestartStrategies.no_restart()

    def deterministic_order(self, enabled: bool = True) -> Self:
        """Merge all splits in one order, so that results depend on the input alone, whatever the parallelism."""
        self._settings.deterministic = bool(enabled)
        return self

    def from_collection(self, collection: Iterable[Any], type_info: TypeLike = None) -> DataStream:
        """Return a stream of these records, in order and in one instance.

        >>> from flintstream import StreamExecutionEnvironment, Types
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> named = Types.ROW_NAMED(["id", "n"], [Types.STRING(), Types.INT()])
        >>> list(env.from_collection([("a", 1)], named).execute_and_collect())
        [Row(id='a', n=1)]
        """
        source = CollectionSource(collection, type_info)
        return self._declare_source(source, "Collection Source", source.type_info, parallelism=1, max_parallelism=1)

    def from_source(
        self,
        source: Source,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "",
        type_info: TypeLike = None,
        *,
        watermark: WatermarkStrategy | None = None,
        start_from: PlaceLike | None = None,
        until: PlaceLike | None = None,
    ) -> DataStream:
        """Return the stream of a source; `watermark=bounded("2s", on="ts")` is short for the strategy.

        `start_from` and `until` say what to read when the job first starts: from a time (a datetime, ISO text, ms) of
        the log itself, from a position of each split, as {"orders-0": 1234}, or from "now" on; and up to before where.

        Args:
            source: Where records come from.
            watermark_strategy: How they get their event time; without one they have none.
            source_name: The name that plans and errors show.
            type_info: The type that every record must have.
            watermark: The same as `watermark_strategy`.
            start_from: Where reading begins, if not where the source itself says.
            until: Where reading ends; then the input is bounded.
        """
        checked = require(source, Source, "a Source", "pass a Source, or use from_collection, from_dataframe")
        name = source_name or type(checked).__name__
        declared = read_type(type_info)
        part = excerpt_of(checked, start_from, until)
        places = {"start_from": part.start_from, "until": part.until}
        stream = self._declare_source(part.source, name, declared, output_type=declared, **places)
        return self._timed(stream, watermark_strategy, watermark)

    def from_dataframe(
        self,
        df: Any,
        watermark: WatermarkStrategy | None = None,
        *,
        split_by: str | Sequence[str] | None = None,
        order_by: str | Sequence[str] | None = None,
    ) -> DataStream:
        """Return any Spark DataFrame, batch or streaming, as a stream of rows with its columns' names.

        A DataFrame has no order of its own; with Kafka's columns, `split_by=["topic", "partition"], order_by="offset"`
        gives it one. Each split then has a watermark of its own.

        Args:
            df: The DataFrame.
            watermark: How its rows get their event time; without one they have none.
            split_by: Columns whose values name a row's split; without any, all rows are one split.
            order_by: Columns that order the rows of a split in each micro-batch, and ascend from one to the next.
        """
        source = read_frame(df, split_by, order_by)
        return self._timed(self._declare_source(source, "DataFrame", None), None, watermark)

    def generate(
        self,
        fields: Mapping[str, Field] | None = None,
        *,
        generator: Callable[[int], Any] | None = None,
        count: int | None = None,
        rate: float | None = None,
        seed: int = 0,
        splits: int | None = None,
        watermark: WatermarkStrategy | None = None,
    ) -> DataStream:
        """Return a stream of generated records: rows of `fields`, or what `generator(index)` returns.

        >>> from flintstream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
        >>> env.generate(generator=lambda i: i * i, count=3, splits=1).execute_and_collect(limit=2)
        [0, 1]
        """
        source = DataGeneratorSource(fields, generator=generator, count=count, rate=rate, seed=seed, splits=splits)
        return self._timed(self._declare_source(source, "Data Generator", None), None, watermark)

    def _declare_source(self, source: Source, name: str, emits: Any, **attributes: Any) -> DataStream:
        node = self.declarations.add(
            lambda number, line: SourceNode(id=number, location=line, name=name, source=source, **attributes)
        )
        return DataStream(Origin(self, (Upstream(node.id),), emits))

    def _timed(
        self, stream: DataStream, strategy: WatermarkStrategy | None, short: WatermarkStrategy | None
    ) -> DataStream:
        if strategy is not None and short is not None:
            line = users_line()
            what = "watermark_strategy and watermark= say the same thing"
            raise InvalidArgumentError(describe(what, line, "give one of them"), location=line)
        chosen = strategy or short
        # A strategy that neither assigns timestamps nor makes watermarks is the same as none.
        if chosen is None or chosen == WatermarkStrategy.no_watermarks():
            return stream
        return stream.assign_timestamps_and_watermarks(chosen)

    def show_progress(self, show: bool = True) -> Self:
        """Show one line of live progress on stderr: records in and out, watermark, epoch."""
        self._settings.progress = show
        return self

    def add_jars(self, *jars_path: str) -> None:
        """Put Java archives on the classpath of the Spark session that is started."""
        known = self._settings.spark.get("spark.jars")
        self._settings.spark["spark.jars"] = ",".join(filter(None, [known, *jars_path]))

    def close(self) -> None:
        """Do nothing: an environment holds nothing open."""

    def add_source(
        self, source_func: Any, source_name: str = "Custom Source", type_info: TypeLike = None
    ) -> DataStream:
        """Refuse: a SourceFunction cannot be read again from a position."""
        refuse("add_source", "use from_source(source) with a SplitSource")

    def create_input(self, input_format: Any, type_info: TypeLike = None) -> DataStream:
        """Refuse: there are no input formats."""
        refuse("create_input", "use from_source(FileSource...) or from_dataframe(spark.read...)")

    def add_python_file(self, file_path: str) -> None:
        """Refuse: Spark ships Python files."""
        refuse("add_python_file", "give a session: get_execution_environment(spark=...), after its addPyFile(...)")

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Refuse: Spark ships archives."""
        refuse("add_python_archive", "set spark.archives in the configuration")

    def set_python_requirements(self, requirements_file_path: str, requirements_cache_dir: str | None = None) -> None:
        """Refuse: workers have the packages of their own Python."""
        refuse("set_python_requirements", "install the packages where the workers run, or set spark.archives")

    def set_python_executable(self, python_exec: str) -> None:
        """Refuse: the variable PYSPARK_PYTHON names the workers' Python."""
        refuse("set_python_executable", "set PYSPARK_PYTHON before the program starts")

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Refuse: Spark ships files."""
        refuse("register_cached_file", "set spark.files in the configuration")

    def set_default_savepoint_directory(self, directory: str) -> Self:
        """Set where savepoints go for which nobody names a directory."""
        self._settings.savepoint_dir = check_path("the savepoint directory", directory)
        return self

    def get_default_savepoint_directory(self) -> str | None:
        """Return where savepoints go for which nobody names a directory, None if nobody said."""
        return self._settings.savepoint_dir

    def start_from_savepoint(
        self,
        path: str,
        allow_non_restored_state: bool = False,
        rename: Mapping[str, str | Sequence[str]] | None = None,
        trust: bool = False,
    ) -> Self:
        """Let jobs that have no checkpoints of their own begin with the state and the positions of a savepoint.

        Args:
            path: The savepoint's directory. A checkpoint directory, or a manifest in one, does as well.
            allow_non_restored_state: Whether state may be left behind that no operator of the program owns.
            rename: New uids of operators by those they had; an operator that has become several may have several.
            trust: Whether code that the savepoint brings may run; only for what you made yourself.
        """
        self._settings.start_from = read_start(path, allow_non_restored_state, rename, trust)
        return self

    set_buffer_timeout = without_effect("set_buffer_timeout")
    disable_operator_chaining = without_effect("disable_operator_chaining")
    register_slot_sharing_group = without_effect("register_slot_sharing_group")
    enable_changelog_state_backend = without_effect("enable_changelog_state_backend")
    set_default_local_parallelism = without_effect("set_default_local_parallelism")

    def _submit(self, plan: Plan, background: bool) -> JobClient:
        options = settled(self._settings.for_runtime(), self._settings.checkpoint_root, plan)
        of_this_process().began()
        if self._settings.runtime == "local":
            from flintstream.local.run import submit as submit_here  # noqa: PLC0415  # see the module's docstring

            # In the foreground, a breakpoint in a user's function stops in the user's own thread.
            return submit_here(plan, options, background=background)
        from flintstream.spark.submit import submit as submit_to_spark  # noqa: PLC0415  # see the module's docstring

        return submit_to_spark(plan, options, background=True)
