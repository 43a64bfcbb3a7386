"""The epoch loop of a job that reads streams of Spark's: one Structured Streaming query that hands over micro-batches.

Spark's checkpoint holds source offsets and nothing else. Every batch becomes one epoch; one that comes again after a
crash is recognised by what the manifest says of it, and only its sinks' commit is finished. If Spark's checkpoint and
the manifest contradict each other the job refuses to go on.
"""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from typing import Any

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from flintstream.engine.coordinator import Coordinator
from flintstream.engine.loop import EpochLoop
from flintstream.engine.options import JobOptions
from flintstream.errors import SavepointError, describe
from flintstream.planner.plan import Plan
from flintstream.spark.epochs import BorrowedSessions, SparkRunner
from flintstream.spark.failures import translate
from flintstream.spark.log import SparkLog
from flintstream.spark.source_kinds import source_nodes
from flintstream.spark.sources import FrameReader
from flintstream.spark.stages import Word


class StoppedError(Exception):
    """Leaves a batch that has not begun, because someone asked the job to end, or no sink would see its records."""


class QueryLoop:
    """Runs epochs on the micro-batches of one query, then the last one when a bounded input has been read."""

    def __init__(
        self,
        session: SparkSession,
        plan: Plan,
        options: JobOptions,
        coordinator: Coordinator,
        runner: SparkRunner,
        epochs: EpochLoop,
        folder: str,
    ) -> None:
        self._session = session
        self._plan = plan
        self._options = options
        self._coordinator = coordinator
        self._runner = runner
        self._epochs = epochs
        self._log = SparkLog(coordinator.storage, folder)
        self._reader = FrameReader(session, plan, runner.reference)
        self._frame: DataFrame | None = None
        self._batch: int | None = None
        self._ending: frozenset[int] = frozenset()
        self._error: BaseException | None = None
        self._query: Any = None
        self._done = threading.Event()
        self._is_over = False

    def run_epoch_tasks(self, context: Any) -> Any:
        """Run one epoch's tasks on the frame at hand; this is the loop's way to Spark."""
        frame = self._frame
        assert frame is not None
        ranges = self._reader.ranges(context, frame.sparkSession)
        whole = self._reader.in_order(frame if ranges is None else frame.unionByName(ranges))
        reader = self._reader
        word = Word(context, self._ending)
        with nullcontext() if self._batch is None else self._log.secured(self._batch):
            return self._runner.run_frame(whole, reader.names, reader.lone, word)

    def run(self) -> bool:
        """Run until the end; return whether the input was read to its end."""
        manifest = self._coordinator.manifest
        if manifest is not None and manifest.finished:
            return True
        stream = self._reader.streaming()
        bounded = all(node.is_bounded for _, node in source_nodes(self._plan))
        if stream is not None and not bounded and (self._coordinator.wants_ticks or self._coordinator.splits()):
            stream = stream.unionByName(self._reader.ticks())
        self._runner.expect(self._reader.row_bytes)
        if stream is None:
            return self._run_static()
        stream = self._reader.narrowed(stream)
        self._read_static(closing=False)
        ended = self._is_over = self._epochs.is_over()
        if not ended:
            if self._coordinator.restored is not None:
                self._coordinator.restored.seed(self._coordinator.storage)
            self._start(stream, bounded)
            ended = self._wait() and bounded
        if self._epochs.wants_stop and not ended and not self._is_over:
            if not self._conclude():
                what = "the job was to stop with a savepoint, which could not be written"
                raise SavepointError(describe(what, None, "start it again: it goes on from its checkpoint"))
            return not self._epochs.is_cancelled
        if (ended or self._is_over) and not self._epochs.stopping:
            self._last_epoch()
            return True
        return False

    def _run_static(self) -> bool:
        """A job without streams of Spark's: what is left after its DataFrames is read by ranges, until that ends."""
        if self._read_static(closing=True):
            return True
        while not self._epochs.stopping:
            if self._epochs.has_halted():
                return True
            self._frame = self._reader.empty()
            self._epochs.attend()
            if self._epochs.wants_stop and self._conclude():
                return not self._epochs.is_cancelled
            if self._epochs.step_with({"static_read": True}, closing=True):
                return True
        return False

    def _conclude(self) -> bool:
        """Take the savepoint with which the job is to end; return whether it ends now."""
        self._frame = self._reader.empty()
        return self._epochs.conclude(self._last_epoch)

    def _read_static(self, closing: bool) -> bool:
        """Read static DataFrames to their end in an epoch of their own, the first; return whether the job ended."""
        manifest = self._coordinator.manifest
        static = self._reader.static()
        if static is None or (manifest is not None and manifest.spark.get("static_read")):
            return False
        self._frame, self._ending = static, self._reader.static_sources()
        ended = self._epochs.step_with({"static_read": True}, closing=closing, ending=self._ending)
        self._ending = frozenset()
        return ended

    def _start(self, stream: DataFrame, bounded: bool) -> None:
        writer: Any = stream.writeStream.queryName(f"flintstream {self._plan.name} {id(self)}")
        writer = writer.option("checkpointLocation", self._log.address).foreachBatch(self._on_batch)
        if bounded:
            writer = writer.trigger(availableNow=True)
        elif self._options.interval_ms:
            writer = writer.trigger(processingTime=f"{self._options.interval_ms} milliseconds")
        if self._coordinator.manifest is not None:
            self._log.check(self._coordinator.manifest.spark)
        # Spark makes a session of its own for a query, from what this one is when the query starts.
        borrowed = BorrowedSessions(self._log.settings(reads_files=self._reader.reads_files))
        try:
            borrowed.prepare(stream.sparkSession)
            self._query = writer.start()
        except PySparkException as error:
            raise translate(error) from None
        finally:
            borrowed.give_back()

    def _wait(self) -> bool:
        """Wait for the query; return whether it ended by itself."""
        try:
            while not self._query.awaitTermination(0.2):
                self._epochs.attend_beside()
                if self._epochs.waits_for_spark and self._waits_for_data():
                    self._epochs.spark_waits()
                if self._epochs.stopping or self._is_over or self._epochs.wants_stop:
                    self._stop_between_batches()
                    return False
        except StreamingQueryException as error:
            if isinstance(self._error, StoppedError):
                return False
            raise self._error or translate(error) from None
        except KeyboardInterrupt:
            self._epochs.stop()
            self._stop_between_batches()
            raise
        return True

    def _waits_for_data(self) -> bool:
        """Whether the streams have nothing more for now; ticks, which always come, do not count."""
        if self._query.status["message"] == "Waiting for data to arrive":
            return True
        sources = (self._query.lastProgress or {}).get("sources", [])
        others = [each for each in sources if not each["description"].startswith("RateStream")]
        return bool(sources) and not any(each["numInputRows"] for each in others)

    def _stop_between_batches(self) -> None:
        """Let the epoch at hand end, then stop; stopping in the midst of one would be safe too, only wasteful."""
        deadline = time.monotonic() + 30
        while self._query.isActive and not self._done.is_set() and time.monotonic() < deadline:
            status = self._query.status
            if not status["isTriggerActive"]:
                break
            time.sleep(0.05)
        self._query.stop()

    def _on_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Called by Spark for every micro-batch, in the driver."""
        try:
            if self._epochs.stopping or self._is_over or self._epochs.wants_stop:
                raise StoppedError
            spark = self._log.identify(batch_id)
            if self._is_replay(spark):
                assert self._coordinator.manifest is not None
                self._coordinator.commit_sinks(self._coordinator.manifest)
                return
            self._frame, self._batch = batch, batch_id
            self._epochs.step_with({**spark, "static_read": True}, closing=False)
            self._is_over = self._epochs.is_over()
        except BaseException as error:
            self._error = error
            self._done.set()
            raise

    def _is_replay(self, spark: dict[str, Any]) -> bool:
        """Whether a batch is the one of the newest manifest; anything that contradicts it is refused."""
        manifest = self._coordinator.manifest
        if manifest is None or "query" not in manifest.spark:
            return False
        known: dict[str, Any] = {name: manifest.spark[name] for name in ("query", "batch", "offsets")}
        if known == spark:
            return True
        if known["query"] == spark["query"] and known["batch"] + 1 == spark["batch"]:
            return False
        raise self._log.contradiction(known, f"batch {spark['batch']}")

    def _last_epoch(self) -> None:
        """One more epoch, without records, in which event time comes to its end."""
        self._frame = self._reader.empty()
        spark = {} if self._coordinator.manifest is None else dict(self._coordinator.manifest.spark)
        self._epochs.close_with(spark)
