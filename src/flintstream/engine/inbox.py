"""The receiving side of a level: control rows first, then blobs in the order of their first stamp.

Control rows say how all lanes moved; from them each operator's clock is built before its first record. Then blobs are
merged and cut into runs as soon as enough is complete.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from flintstream.engine.envelope import CONTROL, Envelope, read_blob, read_partials
from flintstream.engine.epoch import ControlMessage, EpochContext, TaskReport
from flintstream.engine.merge import RunMerger, empty_batch, go_ahead, place_in_lane, tracks_of
from flintstream.engine.restraint import order_bound
from flintstream.engine.router import keys_of
from flintstream.errors import LedgerError, describe
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.batch import Batch, Values
from flintstream.ops.clock import ChunkSteps, EventClock, LaneTime, LaneTrack, track_lane
from flintstream.ops.run import Run, take_turn
from flintstream.ops.timestamps import LANE_SHIFT, TimestampsOperator, chunk_time, lanes_with
from flintstream.ops.window_columns import ColumnOperator
from flintstream.planner.plan import Link
from flintstream.state.keygroups import hash_key
from flintstream.state.partials import split_windows
from flintstream.state.table import Table

RUN_BYTES = 16 << 20
"""How much is collected before a run is cut; large enough for columns, small enough for memory."""


class Inbox:
    """Feeds the head operators of one level in one partition for one epoch."""

    def __init__(self, task: Any, epoch: EpochContext, report: TaskReport) -> None:
        self._task = task
        self._plan = task.plan
        self._epoch = epoch
        self._report = report
        self._messages: list[ControlMessage] = []
        self._expected: dict[int, int] = {}
        self._heads = [place for place in task.places.values() if self._plan.is_head(place.planned)]
        self._links = {link.edge: link for place in self._heads for link in self._plan.links_to(place.planned.id)}
        self._mergers: dict[int, RunMerger] | None = None
        self._tracks: dict[int, LaneTrack] = {}
        self._buffered = 0

    def take(self, row: Envelope) -> None:
        """Take in one row of this level."""
        self._note_attempt(row)
        if row.edge == CONTROL:
            message: ControlMessage = pickle.loads(row.blob)
            self._messages.append(message)
            for edge, count in message.sent.items():
                self._expected[edge] = self._expected.get(edge, 0) + count
            return
        if self._mergers is None:
            self._start()
        if self._buffered > RUN_BYTES:
            self._cut((row.watermark, row.lane, row.position))
        self._receive(row)

    def _note_attempt(self, row: Envelope) -> None:
        """All rows of one producer must be of one attempt: a rerun may have other output."""
        if self._report.seen.setdefault(row.producer, row.attempt) != row.attempt:
            raise LedgerError(
                describe(f"two attempts of task {row.producer} reached partition {self._report.partition}")
            )

    def _receive(self, row: Envelope) -> None:
        link = self._links[row.edge]
        place = self._task.places[link.target]
        meters = self._task.meters
        meters.received(link.target, len(row.blob))
        before = meters.turn_to(link.target)
        if not isinstance(place.operator, ColumnOperator) or not self._take_partials(row, place):
            self._take_records(row, link, place)
        meters.turn_to(before)

    def _take_records(self, row: Envelope, link: Link, place: Any) -> None:
        batch, chunk = read_blob(row.blob)
        self._buffered += len(row.blob)
        self._report.received[row.edge] = self._report.received.get(row.edge, 0) + len(batch)
        if chunk is not None:
            batch = place_in_lane(batch, self._tracks[int(batch.stamp[1][0])], tuple(chunk))
        assert self._mergers is not None
        if link.ahead:
            batch = go_ahead(batch)
        batch = take_turn(batch, link.turn, place.planned.width)
        self._mergers[link.target].add(link.port, keys_of(link, batch))

    def _take_partials(self, row: Envelope, place: Any) -> bool:
        """Take in results that were folded before the shuffle; return False if the row holds records."""
        found = read_partials(row.blob)
        if found is None:
            return False
        batch, records = found
        self._report.received[row.edge] = self._report.received.get(row.edge, 0) + batch.num_rows
        place.ctx.count("in", records)
        for start, part in split_windows(batch):
            place.operator.add_partial(start, part)
        return True

    def _start(self) -> None:
        """Build all clocks; every control row is here, since they sort first."""
        chunks: dict[int, list[ChunkSteps]] = {}
        for message in self._messages:
            for chunk in message.chunks:
                chunks.setdefault(chunk.lane, []).append(chunk)
        for lane in lanes_with(self._epoch.lanes, chunks):
            start = self._epoch.lanes.get(lane) or LaneTime()
            self._tracks[lane] = track_lane(start, chunks.get(lane, ()), lane in self._epoch.finishing)
        self._mergers = {}
        for place in self._heads:
            planned = place.planned
            tracks = tracks_of(self._tracks, self._upstream_lanes(planned.id), LANE_SHIFT)
            lanes = {lane: self._epoch.lanes.get(lane) or LaneTime() for lane in tracks}
            start = self._epoch.watermarks.get(planned.id, MIN_TIMESTAMP)
            clock = EventClock(start, lanes, tracks)
            ports = len(planned.node.inputs)
            merger = RunMerger(clock, planned.width, ports, self._epoch.now)
            self._mergers[planned.id] = merger
            place.ctx.completeness = clock.completeness
            self._begin_operator(place, start)
            self._restore_held(place, merger)

    def _upstream_lanes(self, node: int) -> frozenset[int]:
        """Return the assigners before a head operator (its own lane, if it starts one, is not its input's)."""
        lanes: frozenset[int] = frozenset()
        for link in self._plan.links_to(node):
            lanes |= self._plan.operator(link.source).lanes
        return lanes

    def _begin_operator(self, place: Any, watermark: int) -> None:
        operator, planned = place.operator, place.planned
        if isinstance(operator, TimestampsOperator):
            lane = planned.assigner << LANE_SHIFT
            start = self._epoch.lanes.get(lane) or LaneTime()
            operator.chunk = chunk_time(lane, (), start, self._epoch.now)
            self._task.chunk = None
        run = self._empty_run(planned, watermark)
        before = self._task.meters.turn_to(planned.id)
        with self._task.guard(planned):
            operator.on_processing_time(self._epoch.now, run, place)
        self._task.meters.turn_to(before)
        self._task.after_run()

    def _empty_run(self, planned: Any, watermark: int) -> Run:
        empty = empty_batch(planned.width)
        return Run(empty, empty.timestamps, empty.timestamps, empty.stamp, watermark, self._epoch.now)

    def _cut(self, bound: tuple[int, ...]) -> None:
        """Process everything before `bound`, in every operator."""
        assert self._mergers is not None
        for place in self._heads:
            before = self._task.meters.turn_to(place.planned.id)
            limit = self._limit(place.planned)
            cut = bound if limit is None else min(bound, limit)
            self._process(place, self._mergers[place.planned.id].cut(cut))
            self._task.meters.turn_to(before)
        self._buffered = 0

    def _limit(self, planned: Any) -> tuple[int, int] | None:
        """Return how far deterministic order, or the alignment of splits, lets an operator go; None: no limit."""
        if not self._plan.holds_records:
            return None
        return order_bound(self._plan, self._upstream_lanes(planned.id), self._epoch.lanes, self._tracks)

    def _process(self, place: Any, run: Run | None) -> None:
        if run is None:
            return
        place.ctx.count("in", len(run.batch))
        with self._task.guard(place.planned):
            place.operator.process_run(run, place)
            if isinstance(place.operator, TimestampsOperator) and run.end == MAX_TIMESTAMP:
                place.operator.chunk.finished = True
        self._task.after_run()

    def finish(self) -> None:
        """Process all that is left, up to the end of the epoch's event time, and check that nothing is missing."""
        if self._mergers is None:
            self._start()
        assert self._mergers is not None
        for place in self._heads:
            before = self._task.meters.turn_to(place.planned.id)
            merger = self._mergers[place.planned.id]
            run = merger.cut(self._limit(place.planned))
            if run is None and isinstance(place.operator, ColumnOperator) and place.operator.is_waiting:
                run = self._empty_run(place.planned, merger.watermark)
            self._process(place, run)
            self._hold(place, merger)
            self._report.watermarks[place.planned.id] = merger.watermark
            if isinstance(place.operator, TimestampsOperator):
                with self._task.guard(place.planned):
                    self._report.chunks.append(place.operator.chunk.steps())
            self._task.meters.turn_to(before)
        for edge, count in self._expected.items():
            if self._report.received.get(edge, 0) != count:
                what = f"edge {edge} sent {count} records to partition {self._report.partition}"
                raise LedgerError(describe(what, f"{self._report.received.get(edge, 0)} arrived"))

    def _hold(self, place: Any, merger: RunMerger) -> None:
        """Keep what is not let through yet: `(key, port, stamp) -> (value, timestamp)`."""
        if not self._plan.holds_records:
            return
        for port, batch in merger.rest():
            is_shared = self._comes_by(place, port, "BROADCAST")
            table = self._held_table(place, is_shared)
            keys = batch.keys.rows() if batch.keys is not None and self._comes_by(place, port, "HASH") else None
            if is_shared:
                keys = [None] * len(batch)
            elif keys is None:
                keys = [self._own_key(place)] * len(batch)
            stamps = zip(*(column.tolist() for column in batch.stamp), strict=True)
            rows = zip(keys, stamps, batch.values.rows(), batch.timestamps.tolist(), strict=True)
            for key, stamp, value, timestamp in rows:
                table.put((key, port, stamp), (value, timestamp))

    def _comes_by(self, place: Any, port: int, kind: str) -> bool:
        """Whether records of a port are in this partition because it owns their keys (HASH), or has all (BROADCAST)."""
        links = [link for link in self._plan.links_to(place.planned.id) if link.port == port]
        return all(link.exchange.kind == kind for link in links)

    def _own_key(self, place: Any) -> int:
        """Return a key that this partition owns, so that what is held under it comes back to it, however it moves."""
        backend = place.ctx.backend
        return next(key for key in itertools.count() if hash_key(key) % backend.max_parallelism in backend.groups)

    def _restore_held(self, place: Any, merger: RunMerger) -> None:
        if not self._plan.holds_records:
            return
        by_shape: dict[tuple[int, int], list[Any]] = {}
        for table in (self._held_table(place, is_shared) for is_shared in (False, True)):
            for (key, port, stamp), (value, timestamp) in table.data.items():
                by_shape.setdefault((port, len(stamp)), []).append((stamp, key, value, timestamp))
            for entry in list(table.data):
                table.delete(entry)
        for (port, _), rows in by_shape.items():
            rows.sort(key=lambda row: row[0])
            stamps, keys, values, timestamps = (list(column) for column in zip(*rows, strict=True))
            columns = [np.array(column, np.int64) for column in zip(*stamps, strict=True)]
            merger.add(port, Batch(Values(values), np.array(timestamps, np.int64), columns, None, Values(keys)))

    def _held_table(self, place: Any, is_shared: bool) -> Table:
        name = f"{place.planned.uid}/#held-by-all" if is_shared else f"{place.planned.uid}/#held"
        return place.ctx.backend.table(name, lambda: Table(name, parts=3, resident=True, shared=is_shared))

    def forward_control(self) -> Iterator[Envelope]:
        """Tell later levels how the lanes of earlier ones moved; one partition speaks for all."""
        if self._task.partition != 0:
            return
        chunks = [chunk for message in self._messages for chunk in message.chunks]
        for level in range(self._task.level + 1, min(self._task.level + 2, self._plan.levels)):
            for partition in range(self._plan.partitions(level)):
                yield self._task.sender.control(level, partition, ControlMessage(self._task.level, chunks))
