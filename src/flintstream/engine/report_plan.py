"""The plan of a job as a document for whoever watches it from outside: written once, when the job starts.

Separate from what changes while the job runs, since most readers need it once, and a picture is large.

Flink: the answers of `/jobs/:jobid`, `/jobs/:jobid/plan` and `/jobs/:jobid/config` of its REST interface.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flintstream.engine.options import JobOptions
from flintstream.graph.nodes import FunctionNode, Node
from flintstream.model.secrets import hidden, without_passwords
from flintstream.planner.guarantee import guarantee_of
from flintstream.planner.picture import picture
from flintstream.planner.plan import Link, Plan, PlannedOperator


def _unknown() -> int | None:
    """What is known of the memory of a JVM where there is none."""


@dataclass(frozen=True, slots=True)
class Host:
    """What a job runs on: which runtime, how many of its tasks run at once, and what Spark tells of itself.

    `jvm_memory` returns the bytes of memory of the driver's JVM, None if nobody knows.
    """

    runtime: str = "local"
    master: str | None = None
    slots: int = 1
    spark: str | None = None
    spark_ui: str | None = None
    jvm_memory: Callable[[], int | None] = _unknown


def plan_document(
    plan: Plan, options: JobOptions, host: Host, attempt: int, started_ms: int, queryable: Mapping[str, list[str]]
) -> dict[str, Any]:
    """Return what is to be known of a job before it runs; passwords are left out."""
    promise = guarantee_of(plan, options.checkpoint_dir)
    return {
        "name": plan.name,
        "runtime": host.runtime,
        "master": host.master,
        "slots": host.slots,
        "parallelism": max(op.parallelism for op in plan.operators),
        "max_parallelism": plan.max_parallelism,
        "batch_mode": plan.batch_mode,
        "checkpoint_dir": _place(options.checkpoint_dir),
        "savepoint_dir": _place(options.savepoint_dir),
        "guarantee": {"level": promise.guarantee.value, "text": str(promise)},
        "configuration": hidden(dict(options.configuration)),
        "attempt": attempt,
        "pid": os.getpid(),
        "started_ms": started_ms,
        "flintstream": _version(),
        "spark": host.spark,
        "python": platform.python_version(),
        "spark_ui": host.spark_ui,
        "operators": [_operator(op, queryable.get(op.uid, [])) for op in plan.operators],
        "edges": [_edge(plan, link) for link in plan.links],
        "picture": picture(plan),
    }


def _place(path: str | None) -> str | None:
    """Return a directory as an absolute path, an address without its password."""
    if path is None:
        return None
    return without_passwords(path) if "://" in path else str(Path(path).absolute())


def _version() -> str:
    try:
        return version("flintstream")
    except PackageNotFoundError:
        return "unknown"


def _operator(op: PlannedOperator, queryable: list[str]) -> dict[str, Any]:
    return {
        "uid": op.uid,
        "name": op.node.name,
        "kind": kind_of(op.node),
        "level": op.level,
        "parallelism": op.parallelism,
        "path": op.path,
        "location": op.node.location or None,
        "queryable": queryable,
    }


def kind_of(node: Node) -> str:
    """Return what an operator is, in a word: source, sink, window, or the shape of its function."""
    return node.shape if isinstance(node, FunctionNode) else type(node).__name__.removesuffix("Node").lower()


def _edge(plan: Plan, link: Link) -> dict[str, Any]:
    source, target = plan.operator(link.source), plan.operator(link.target)
    return {
        "from": source.uid,
        "to": target.uid,
        "how": link.exchange.kind.lower(),
        "tag": link.tag or None,
        "edge": link.edge,
    }
