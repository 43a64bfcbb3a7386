"""The splits of all sources that are read by ranges: which there are, where each begins and ends, how far it was read.

Apart from the coordinator, who owns the commit, because splits have a life of their own: most sources make theirs once
in the life of a job's state, but a log gains parts while the job runs. Parts get their numbers here, in the order in
which they are found, and the manifest keeps them with where they begin and end: a bounded read of a log ends where it
was to end when the job first started, however often it was started since.

Flink: SourceEnumerator and its checkpoint (KafkaSourceEnumState).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from flintstream.connectors.frames import FrameSource
from flintstream.engine.epoch import ReadRange
from flintstream.engine.manifest import Manifest
from flintstream.errors import FlintstreamError
from flintstream.graph.nodes import SourceNode
from flintstream.model.connect import LogSource, Split, SplitSource
from flintstream.model.positions import begun_at, ended_at
from flintstream.ops.timestamps import NO_SPLIT
from flintstream.planner.plan import Plan

T = TypeVar("T")
_LOG = logging.getLogger("flintstream")


class SplitBook:
    """All splits of a job that are read by ranges, by the number of their source."""

    def __init__(self, plan: Plan, found: Manifest | None) -> None:
        self._plan = plan
        self._uids = {op.id: op.uid for op in plan.operators}
        # Splits are made once in the life of a job's state: positions belong to them, whatever the parallelism is now.
        self.split_into = {} if found is None else dict(found.split_into)
        self.splits: dict[int, list[Split]] = {}
        self._logs: dict[int, LogSource] = {}
        self._nodes: dict[int, SourceNode] = {}
        self._looked: dict[int, int] = {}
        self.halts: dict[tuple[int, int], int] = {}
        """Where splits are to be left as they stand, by source and split, though they may go on."""
        for op in plan.operators:
            if not isinstance(op.node, SourceNode) or not isinstance(op.node.source, SplitSource):
                continue
            source = op.node.source
            into = self.split_into.setdefault(op.uid, op.parallelism)
            self._nodes[op.id] = op.node
            if op.node.start_from is not None and _is_restored(found, op.uid):
                _LOG.warning("source %r begins where the savepoint says, and not at its start_from", op.uid)
            if not isinstance(source, LogSource):
                made = self._asked(op.id, lambda: source.splits(into))  # noqa: B023 - called at once
                self.splits[op.id] = self._bounded(op.id, source, made)
                self._halt(op.id, source)
                continue
            self._logs[op.id] = source
            known = None if found is None else found.parts.get(op.uid)
            self.splits[op.id] = [Split(number, start, end, name) for number, name, start, end in known or ()]
            if known is None or self._looks_for_parts(op.id):
                self._discover(op.id, known is None)
            if known is not None and op.node.is_bounded and any(each.end is None for each in self.splits[op.id]):
                self._end_now(op.id)
            self._halt(op.id, source)

    def _asked(self, node: int, question: Callable[[], T]) -> T:
        """Return a source's answer; if it cannot tell, the error names the user's line."""
        try:
            return question()
        except FlintstreamError as error:
            op = self._plan.operator(node)
            raise error.at(op.node.location, op.uid) from None

    def _bounded(self, node: int, source: SplitSource, splits: Sequence[Split]) -> list[Split]:
        """Return splits that begin and end where the program says."""
        start_from, until = self._nodes[node].start_from, self._nodes[node].until
        if start_from is not None:
            splits = self._asked(node, lambda: begun_at(start_from, source, splits))
        if until is None or until.halts:
            return list(splits)
        return self._asked(node, lambda: ended_at(until, source, splits))

    def _halt(self, node: int, source: SplitSource) -> None:
        """Find out where splits are to be left as they stand; parts that came up since a savepoint are among them."""
        until = self._nodes[node].until
        if until is None or not until.halts:
            return
        if isinstance(source, LogSource):
            self._discover(node, False)
        for split in self._asked(node, lambda: ended_at(until, source, self.splits[node])):
            assert split.end is not None
            self.halts[node, split.number] = split.end

    def _looks_for_parts(self, node: int) -> bool:
        """Whether parts of a log that come up while the job runs are read too."""
        return self._logs[node].discovery_interval_ms is not None and self._nodes[node].until is None

    def _discover(self, node: int, is_first: bool) -> list[Split]:
        """Number the parts that are new, and return them."""
        splits, source = self.splits[node], self._logs[node]
        parts = self._asked(node, lambda: source.discover({split.name for split in splits}, is_first))
        new = [Split(number, part.start, part.end, part.name) for number, part in enumerate(parts, len(splits))]
        if is_first:
            new = self._bounded(node, source, new)
        splits += new
        return new

    def _end_now(self, node: int) -> None:
        """Give parts an end that had none when the job's state was made: it went on then, and is to end now."""
        source, until = self._logs[node], self._nodes[node].until
        self._discover(node, False)
        splits = self.splits[node]
        if until is None:
            found = {part.name: part.end for part in self._asked(node, lambda: source.discover((), True))}
            self.splits[node] = [replace(each, end=found.get(each.name, each.end)) for each in splits]
        else:
            self.splits[node] = self._asked(node, lambda: ended_at(until, source, splits))

    def look(self, now: int) -> list[tuple[int, Split]]:
        """Return the parts of logs that have come up since the last look, if it is time for another."""
        found: list[tuple[int, Split]] = []
        for node, source in self._logs.items():
            since = self._looked.setdefault(node, now)
            interval = source.discovery_interval_ms
            if interval is not None and self._looks_for_parts(node) and now - since >= interval:
                self._looked[node] = now
                found += [(node, split) for split in self._discover(node, False)]
        return found

    @property
    def expects_more(self) -> bool:
        """Whether parts may come up that nobody knows of yet, so that having read all that are known is no end."""
        return any(map(self._looks_for_parts, self._logs))

    def known(self) -> dict[int, list[int]]:
        """Return the numbers of the splits that each source has from the start: event time waits for them all."""
        numbers = {node: [split.number for split in splits] for node, splits in self.splits.items()}
        for node in self._logs:
            if not numbers[node] and self._looks_for_parts(node):
                numbers[node] = [NO_SPLIT]
        for op in self._plan.operators:
            if isinstance(op.node, SourceNode) and op.id not in numbers:
                is_named = isinstance(op.node.source, FrameSource) and op.node.source.split_by
                numbers[op.id] = [NO_SPLIT if is_named else 0]
        return numbers

    def positions(self, manifest: Manifest | None) -> dict[int, dict[int, int]]:
        """Return the next position of every split after a manifest."""
        stored = {} if manifest is None else manifest.positions
        return {
            node: {s.number: stored.get(self._uids[node], {}).get(s.number, s.start) for s in splits}
            for node, splits in self.splits.items()
        }

    def positions_after(self, manifest: Manifest | None, ranges: Sequence[ReadRange]) -> dict[str, dict[int, int]]:
        """Return the next position of every split once these ranges are read, by the source's uid."""
        positions = self.positions(manifest)
        for piece in ranges:
            positions[piece.source][piece.split] = piece.end
        return {self._uids[node]: by_split for node, by_split in positions.items()}

    def parts(self) -> dict[str, list[tuple[int, str, int, int | None]]]:
        """Return the parts of all logs as the manifest keeps them."""
        return {
            self._uids[node]: [(each.number, each.name, each.start, each.end) for each in self.splits[node]]
            for node in self._logs
        }

    def available(self) -> Mapping[tuple[int, int], int]:
        """Return up to where the parts of logs can be read now, by source and split; splits that end are left out."""
        limits: dict[tuple[int, int], int] = {}
        for node, source in self._logs.items():
            names = {split.name: split.number for split in self.splits[node]}
            found = self._asked(node, lambda: source.available(names))  # noqa: B023 - called at once
            limits.update({(node, number): found[name] for name, number in names.items()})
        limits.update({name: min(end, limits.get(name, end)) for name, end in self.halts.items()})
        return limits

    def tell_committed(self, manifest: Manifest) -> None:
        """Tell logs how far they were read, for whoever watches them there."""
        for node, source in self._logs.items():
            if not self._nodes[node].is_told:
                continue
            positions = manifest.positions[self._uids[node]]
            try:
                source.committed({split.name: positions[split.number] for split in self.splits[node]})
            except FlintstreamError as error:
                _LOG.warning("%s", error)


def _is_restored(found: Manifest | None, uid: str) -> bool:
    """Whether the positions of a source come from a savepoint: such a manifest is of no life of the job's own yet."""
    return found is not None and not found.incarnation and uid in found.positions
