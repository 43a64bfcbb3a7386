"""One level in one partition: its operators, opened once and fed epoch after epoch.

Inside a level, records go from operator to operator by a call. What crosses to another level goes into the outbox as
envelopes. Everything here is the same whether Spark or the in-process runner moves the envelopes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from flintstream.engine.bad_records import set_apart
from flintstream.engine.envelope import DRIVER, Envelope, Sender
from flintstream.engine.epoch import ControlMessage, EpochContext, TaskReport, producer_id
from flintstream.engine.guarded import guarded
from flintstream.engine.inbox import Inbox
from flintstream.engine.measures import NOBODY, Meters
from flintstream.engine.router import Router
from flintstream.engine.staging import Staging
from flintstream.errors import FlintstreamError
from flintstream.graph.nodes import SinkNode, SourceNode, TimestampsNode, logs_late
from flintstream.model.connect import WriterContext
from flintstream.model.dead_letters import DEAD_LETTERS, ErrorPolicy
from flintstream.model.time import MIN_TIMESTAMP
from flintstream.ops.batch import Batch, Values
from flintstream.ops.clock import LaneTime
from flintstream.ops.conform import Conform, conform_to
from flintstream.ops.operator import MAIN, Operator, OperatorContext
from flintstream.ops.run import take_turn
from flintstream.ops.sink import SinkOperator
from flintstream.ops.timestamps import ChunkTime, TimestampsOperator, chunk_time, lane_of, untimed
from flintstream.planner.build import build_operator
from flintstream.planner.plan import Link, Plan, PlannedOperator
from flintstream.state.backend import KeyedBackend
from flintstream.state.keygroups import group_range


@dataclass(slots=True)
class SourceChunk:
    """A stretch of one split as level 0 reads it; `order` places it among the split's other stretches."""

    source: int
    split: int
    order: tuple[object, ...]
    values: Iterator[Values]
    finished: bool = False
    is_whole: bool = False


@dataclass(slots=True)
class Place:
    """An operator of the level, opened, with where its output goes. It is the operator's own Output."""

    task: LevelTask
    planned: PlannedOperator
    operator: Operator
    ctx: OperatorContext
    local: dict[str, list[Link]] = field(default_factory=dict[str, list[Link]])
    routers: dict[str, list[Router]] = field(default_factory=dict[str, list[Router]])
    conform: Conform | None = None

    def emit(self, batch: Batch, tag: str = MAIN) -> None:
        """Send an output on: into the next operators, and over the shuffle."""
        if not len(batch):
            return
        counters = self.ctx.counters
        self.task.meters.gave(self.planned.id, batch)
        if tag == MAIN:
            counters["out"] = counters.get("out", 0) + len(batch)
            if self.conform is not None:
                batch = batch.with_values(self.conform(batch.values))
        else:
            counters["side"] = counters.get("side", 0) + len(batch)
        for link in self.local.get(tag, ()):
            self.task.call(link, batch)
        for router in self.routers.get(tag, ()):
            self.task.send(router, batch)


class LevelTask:
    """The operators of one level in one partition."""

    def __init__(self, plan: Plan, level: int, partition: int) -> None:
        self.plan = plan
        self.level = level
        self.partition = partition
        self.epoch_done = 0
        self.token: str | None = None
        self.after_run: Callable[[], None] = _nothing
        self.outbox: list[Envelope] = []
        self.meters = Meters()
        self.chunk: Any = None
        self.combining: Mapping[int, int] | None = None
        self.producer = producer_id(level, partition)
        self.sender = Sender(self.producer, 0)
        self.places: dict[int, Place] = {}
        self._opened = False
        parameters = dict(plan.parameters)
        for planned in plan.at_level(level):
            if isinstance(planned.node, SourceNode):
                continue
            groups = group_range(partition, planned.parallelism, plan.max_parallelism)
            if partition >= planned.parallelism:
                groups = range(0)
            backend = KeyedBackend(plan.max_parallelism, groups)
            ctx = OperatorContext(
                planned.uid, planned.node.name, partition, planned.parallelism, backend, 0, parameters
            )
            ctx.logs_late = logs_late(planned.node)
            place = Place(self, planned, build_operator(planned, plan.batch_mode), ctx)
            if planned.node.output_type is not None:
                place.conform = conform_to(planned.node.output_type, planned.node.name, planned.node.location)
            self.places[planned.id] = place
        self._wire()

    def _wire(self) -> None:
        for place in self.places.values():
            self._wire_outputs(place.planned, place.local, place.routers)
        self._source_types: dict[int, Conform] = {}
        self._lenient: dict[int, ErrorPolicy] = {}
        self._source_links: dict[int, tuple[dict[str, list[Link]], dict[str, list[Router]]]] = {}
        for planned in self.plan.at_level(self.level):
            if isinstance(planned.node, SourceNode):
                self._source_links[planned.id] = ({}, {})
                if planned.node.on_error is not None and planned.node.on_error.errors:
                    self._lenient[planned.id] = planned.node.on_error
                if planned.node.output_type is not None:
                    node = planned.node
                    self._source_types[planned.id] = conform_to(planned.node.output_type, node.name, node.location)
                self._wire_outputs(planned, *self._source_links[planned.id])

    def _wire_outputs(
        self, planned: PlannedOperator, local: dict[str, list[Link]], routers: dict[str, list[Router]]
    ) -> None:
        for link in self.plan.links_from(planned.id):
            if link.edge is None:
                local.setdefault(link.tag, []).append(link)
            else:
                target = self.plan.operator(link.target)
                router = Router(link, target, self.plan.max_parallelism, self.partition, self.plan.holds_records)
                routers.setdefault(link.tag, []).append(router)

    def backends(self) -> dict[str, KeyedBackend]:
        """Return the operators' state, by uid."""
        return {place.planned.uid: place.ctx.backend for place in self.places.values()}

    def open(self, epoch: EpochContext) -> None:
        """Open all operators; called once, when their state is in place."""
        if self._opened:
            return
        self._opened = True
        for node, place in self.places.items():
            place.ctx.now, place.ctx.watermark = epoch.now, epoch.watermarks.get(node, MIN_TIMESTAMP)
            with guarded(place.planned):
                place.operator.open(place.ctx)

    def close(self) -> None:
        """Close all operators."""
        if self._opened:
            self._opened = False
            for place in self.places.values():
                with guarded(place.planned):
                    place.operator.close()

    @contextmanager
    def locating(self) -> Generator[None]:
        """Give the user's line to an error that names one of the operators."""
        try:
            yield
        except FlintstreamError as error:
            found = next((place.planned for place in self.places.values() if place.planned.uid == error.uid), None)
            raise error if found is None else error.at(found.node.location) from None

    def guard(self, planned: PlannedOperator) -> guarded:
        """Return the guard around an operator's own code."""
        return guarded(planned)

    def call(self, link: Link, batch: Batch) -> None:
        """Hand a batch to an operator of this level."""
        place = self.places[link.target]
        batch = take_turn(batch, link.turn, place.planned.width)
        counters = place.ctx.counters
        counters["in"] = counters.get("in", 0) + len(batch)
        before = self.meters.enter(link.target, batch)
        with guarded(place.planned):
            place.operator.process(batch, link.port, place)
        self.meters.turn_to(before)

    def begin(self, epoch: EpochContext, attempt: int, token: str) -> TaskReport:
        """Prepare for an epoch's records."""
        self.sender = Sender(self.producer, attempt)
        self.outbox.clear()
        self.chunk = None
        self.combining = None
        self.meters.begin(epoch.measures)
        for place in self.places.values():
            place.ctx.counters.clear()
            for metric in place.ctx.metrics.values():
                metric.begin()
            place.ctx.notes.clear()
            place.ctx.attempt, place.ctx.now = attempt, epoch.now
            if isinstance(place.operator, SinkOperator):
                uid = place.planned.uid
                parallelism = place.planned.parallelism
                stem = f"{self.level}-{self.partition}-{token}-{place.planned.id}"
                stage = None if epoch.storage is None else Staging(epoch.storage, stem)
                where = (epoch.job, uid, epoch.epoch, self.partition, token, parallelism, epoch.incarnation, stage)
                place.operator.begin(WriterContext(*where))
        for router in self._routers():
            router.begin(epoch.epoch)
        return TaskReport(self.level, self.partition, attempt, token)

    def _routers(self) -> Iterator[Router]:
        for place in self.places.values():
            for routers in place.routers.values():
                yield from routers
        for _, by_tag in self._source_links.values():
            for routers in by_tag.values():
                yield from routers

    def send(self, router: Router, batch: Batch) -> None:
        """Put a batch into the outbox, folded as far as its edge allows."""
        # Keys and partitions may be chosen by functions of the user.
        with guarded(router.target):
            if self.combining is not None:
                rest = router.combine(batch, self.combining)
                if rest is None:
                    return
                batch = rest
            self.outbox.extend(router.route(batch, self.sender, self.chunk))

    def drain(self) -> Iterator[Envelope]:
        """Yield what is in the outbox and empty it."""
        rows, self.outbox = self.outbox, []
        before = self.meters.turn_to(NOBODY)
        yield from rows
        self.meters.turn_to(before)

    def read_sources(
        self, epoch: EpochContext, chunks: Iterable[SourceChunk], report: TaskReport
    ) -> Iterator[Envelope]:
        """Run level 0: read, assign event time, run the chain, send."""
        for chunk in chunks:
            times = self._start_chunk(epoch, chunk)
            local, routers = self._source_links[chunk.source]
            for values in self.meters.reading(chunk.source, chunk.split, chunk.values):
                if not len(values):
                    continue
                batch = untimed(values, times[0], values.timestamps)
                counts = report.counters.setdefault(chunk.source, {"out": 0})
                if (policy := self._lenient.get(chunk.source)) is not None:
                    batch, letters = set_apart(batch, self.plan.operator(chunk.source).uid)
                    counts[DEAD_LETTERS] = counts.get(DEAD_LETTERS, 0) + len(letters)
                    if policy.tag is not None:
                        self._hand_out(local, routers, letters, policy.tag)
                if chunk.source in self._source_types:
                    batch = batch.with_values(self._source_types[chunk.source](batch.values))
                counts["out"] += len(batch)
                self._hand_out(local, routers, batch, MAIN)
                yield from self.drain()
            yield from self._flush()
            for owner, each in zip(self._timed(chunk.source), times, strict=True):
                # What a strategy of the user's remembers may be impossible to keep.
                with guarded(owner):
                    report.chunks.append(each.steps())
        for router in self._routers():
            self.meters.turn_to(router.target.id)
            yield from router.flush(self.sender)
        self.meters.turn_to(NOBODY)

    def _hand_out(self, local: dict[str, list[Link]], routers: dict[str, list[Router]], batch: Batch, tag: str) -> None:
        """Send records of a source on."""
        for link in local.get(tag, ()) if len(batch) else ():
            self.call(link, batch)
        for router in routers.get(tag, ()) if len(batch) else ():
            self.send(router, batch)

    def _flush(self) -> Iterator[Envelope]:
        """Let operators emit what they still hold, those before others first, and yield what is in the outbox."""
        for place in self.places.values():
            before = self.meters.turn_to(place.planned.id)
            with guarded(place.planned):
                place.operator.flush(place)
            self.meters.turn_to(before)
        yield from self.drain()

    def _start_chunk(self, epoch: EpochContext, chunk: SourceChunk) -> list[ChunkTime]:
        """Open a chunk in the lane of its source and in those of all strategies that its records may pass."""
        self.chunk = list(chunk.order)
        # Only where one chunk is all of its split's records in the epoch is its own watermark the lane's.
        self.combining = epoch.watermarks if chunk.is_whole else None
        source, *strategies = self._timed(chunk.source)
        times = [self._chunk_time(epoch, source, source, chunk)]
        for planned in strategies:
            operator = self.places[planned.id].operator
            assert isinstance(operator, TimestampsOperator)
            operator.chunk = self._chunk_time(epoch, planned, source, chunk)
            times.append(operator.chunk)
        # Event time may be ahead of a lane that its strategy has left out, in the midst of the epoch too.
        if any(each.idle for each in times):
            self.combining = None
        return times

    def _timed(self, source: int) -> list[PlannedOperator]:
        """Return a source and the strategies that its records may pass in this level."""
        strategies = [p.planned for p in self.places.values() if isinstance(p.operator, TimestampsOperator)]
        return [self.plan.operator(source), *(each for each in strategies if self._feeds(source, each.id))]

    @staticmethod
    def _chunk_time(
        epoch: EpochContext, planned: PlannedOperator, source: PlannedOperator, chunk: SourceChunk
    ) -> ChunkTime:
        assert planned.assigner is not None and source.assigner is not None
        lane = lane_of(planned.assigner, source.assigner, chunk.split)
        start = epoch.lanes.get(lane) or LaneTime()
        return chunk_time(lane, chunk.order, start, epoch.now, chunk.finished)

    def _feeds(self, source: int, node: int) -> bool:
        """Whether records of a source reach a node."""
        return any(link.source == source or self._feeds(source, link.source) for link in self.plan.links_to(node))

    def run_inbox(self, epoch: EpochContext, rows: Iterable[Envelope], report: TaskReport) -> Iterator[Envelope]:
        """Run a level behind an exchange: merge, process, send; rows for others pass through."""
        inbox = Inbox(self, epoch, report)
        for row in rows:
            if row.level == DRIVER:
                yield row._replace(partition=self.partition)
            elif row.level != self.level:
                yield row
            else:
                inbox.take(row)
                yield from self.drain()
        inbox.finish()
        yield from self._flush()
        yield from inbox.forward_control()

    def finish(self, epoch: EpochContext, report: TaskReport, started: float) -> Iterator[Envelope]:
        """Send the control rows of this task; the driver's comes last, from the caller, with the state."""
        for node, place in self.places.items():
            if isinstance(place.operator, SinkOperator):
                self.meters.turn_to(node)
                with guarded(place.planned):
                    committable = place.operator.prepare_commit()
                self.meters.turn_to(NOBODY)
                if committable is not None:
                    report.committables[node] = committable
            with guarded(place.planned):
                for sweep in place.ctx.sweeps.values():
                    sweep(report.watermarks.get(node, MIN_TIMESTAMP))
                for check in place.ctx.checks:
                    check()
                drained = {name: metric.drain() for name, metric in place.ctx.metrics.items()}
            report.counters[node] = dict(place.ctx.counters)
            report.metrics[node] = {name: new for name, new in drained.items() if new is not None}
            if place.ctx.notes:
                report.notes[node] = list(place.ctx.notes)
            for name, rows in place.ctx.backend.entries().items():
                report.entries[name] = rows
            if place.ctx.backend.queryable:
                report.queryable[place.ctx.uid] = dict(place.ctx.backend.queryable)
        for router in self._routers():
            report.sent[router.edge] = report.sent.get(router.edge, 0) + sum(router.sent.values())
        report.busy_seconds = time.perf_counter() - started
        report.measures, report.times = self.meters.told(), dict(self.meters.times)
        if self.level + 1 < self.plan.levels:
            moves = [replace(chunk, memory=None) if chunk.memory else chunk for chunk in report.chunks]
            for partition in range(self.plan.partitions(self.level + 1)):
                message = ControlMessage(self.level, moves)
                for router in self._routers():
                    if router.level == self.level + 1:
                        message.sent[router.edge] = message.sent.get(router.edge, 0) + router.sent.get(partition, 0)
                yield self.sender.control(self.level + 1, partition, message)
        if epoch.is_final:
            self.close()

    def abort(self) -> None:
        """Undo what can be undone after a failure; the task is not used again."""
        for place in self.places.values():
            if isinstance(place.operator, SinkOperator):
                place.operator.abort()
        try:
            self.close()
        except FlintstreamError:
            return  # the first failure is the one to report

    @property
    def has_sinks(self) -> bool:
        """Whether any operator writes to the outside."""
        return any(isinstance(place.planned.node, SinkNode) for place in self.places.values())

    def late_assigners(self) -> list[Place]:
        """Return the watermark strategies of this level that stand behind an exchange."""
        return [p for p in self.places.values() if self.level and isinstance(p.planned.node, TimestampsNode)]


def _nothing() -> None:
    """What a level does after a run unless its state needs more."""
