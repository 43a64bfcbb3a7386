"""A job's sinks as the driver sees them: what an epoch has for them, and when they let it be seen.

The order is all there is to a delivery guarantee. An epoch is shown (only by sinks whose readers see what is not
committed), then comes its manifest, then sinks publish. A job that starts again takes back what was shown of epochs
without a manifest, and publishes the last one once more, except where at most once is wanted: what such sinks publish
is not even written down, since nobody will ask for it again.

Flink: GlobalCommitterOperator and CommitterOperator. Differs from Flink: at most once, and early output.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from flintstream.engine.epoch import TaskReport
from flintstream.engine.manifest import Manifest, stored_paths
from flintstream.errors import CorruptStateError, FlintstreamError, SinkError, describe
from flintstream.graph.nodes import SinkNode
from flintstream.model.connect import Committer
from flintstream.model.delivery import EXACTLY_ONCE, Delivery
from flintstream.planner.plan import Plan
from flintstream.state.changelog import checksum
from flintstream.state.storage import Storage

Store = Callable[[bytes], dict[str, Any]]
"""Puts bytes among the epoch's small files, and returns what names them."""


@dataclass(slots=True)
class EpochOutput:
    """What an epoch has for each sink, by uid: as tasks handed it over, and as the manifest names it."""

    given: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])
    named: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])


@dataclass(frozen=True, slots=True)
class _Outlet:
    committer: Committer
    delivery: Delivery


class Outlets:
    """The sinks of a plan."""

    def __init__(self, plan: Plan, storage: Storage) -> None:
        self._job = plan.name
        self._storage = storage
        self._uids = {op.id: op.uid for op in plan.operators}
        self.on_visible: Callable[[str], None] = lambda uid: None
        """Is told of a sink whose output of an epoch is to be seen from now on."""
        self._outlets = {
            op.uid: _Outlet(op.node.sink.create_committer(), op.node.delivery or EXACTLY_ONCE)
            for op in plan.operators
            if isinstance(op.node, SinkNode) and op.node.sink is not None
        }

    def take(self, reports: Sequence[TaskReport], store: Store) -> EpochOutput:
        """Gather what the tasks of an epoch have staged."""
        output = EpochOutput()
        for report in sorted(reports, key=lambda each: (each.level, each.partition)):
            for node, committable in report.committables.items():
                uid = self._uids[node]
                output.given.setdefault(uid, []).append(committable)
                if self._outlets[uid].delivery.is_repeated:
                    named = store(committable) if isinstance(committable, bytes) else committable
                    json.dumps(named)
                    output.named.setdefault(uid, []).append(named)
        return output

    def show(self, epoch: int, output: EpochOutput) -> None:
        """Let readers see an epoch before it is committed, where they may."""
        for uid, outlet in self._outlets.items():
            if outlet.delivery.is_early:
                parts = [self._opened(part) for part in output.given.get(uid, ())]
                _ask(uid, f"show epoch {epoch}", partial(outlet.committer.show, self._job, uid, epoch, parts))
                self.on_visible(uid)

    def publish(self, manifest: Manifest, output: EpochOutput) -> None:
        """Let every sink make visible what a committed epoch has for it."""
        self._publish(manifest, output.given, lambda delivery: True)
        for uid, parts in output.given.items():
            if not self._outlets[uid].delivery.is_repeated:
                for path in (path for part in parts for path in stored_paths(part)):
                    with suppress(OSError):
                        self._storage.delete(path)

    def finish(self, manifest: Manifest) -> None:
        """Publish once more what a manifest names: whoever made it may not have come to that."""
        self._publish(manifest, manifest.committables, lambda delivery: delivery.is_repeated)

    def _publish(
        self, manifest: Manifest, parts: Mapping[str, Sequence[Any]], wanted: Callable[[Delivery], bool]
    ) -> None:
        early = [uid for uid, outlet in self._outlets.items() if outlet.delivery.is_early and uid not in parts]
        for uid in [*parts, *early]:
            outlet = self._outlets.get(uid)
            if outlet is not None and wanted(outlet.delivery):
                opened = [self._opened(part) for part in parts.get(uid, ())]
                commit = partial(outlet.committer.commit, manifest.known_as, uid, manifest.epoch, opened)
                _ask(uid, f"publish epoch {manifest.epoch}", commit)
                self.on_visible(uid)

    def know_as(self, name: str) -> None:
        """Call the job so from now on."""
        self._job = name

    def roll_back(self, epoch: int) -> None:
        """Take back what was shown of epochs after this one; they were never committed."""
        for uid, outlet in self._outlets.items():
            if outlet.delivery.is_early:
                what = f"take back what is behind epoch {epoch}"
                _ask(uid, what, partial(outlet.committer.roll_back, self._job, uid, epoch))

    def _opened(self, part: Any) -> Any:
        """Return a committable as its committer wants it: bytes that were written down are read again."""
        if not isinstance(part, dict):
            return part
        document = cast("dict[str, Any]", part)
        if "pieces" in document:
            return {**document, "pieces": [partial(self._opened, piece) for piece in document["pieces"]]}
        if document.get("stored") is not True:
            return document
        data = self._storage.read(document["path"], document["offset"], document["length"])
        if checksum(data) != document["checksum"]:
            what = f"output of the last epoch in {document['path']!r} is damaged"
            raise CorruptStateError(describe(what, None, "restore another checkpoint or savepoint"))
        return data


def _ask(uid: str, what: str, call: Callable[[], None]) -> None:
    try:
        call()
    except FlintstreamError:
        raise
    except Exception as error:
        told = f"sink {uid!r} could not {what} ({type(error).__name__}: {error})"
        raise SinkError(describe(told, None, "start the job again: it begins with that"), uid=uid) from error
