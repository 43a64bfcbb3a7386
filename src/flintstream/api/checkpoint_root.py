"""Where jobs keep their state that name no checkpoint directory, if whoever runs the program offers a place for them.

A manager must be able to restart and rescale any job, also of programs that say nothing about checkpoints. A program
may run several jobs one after the other, so each of them gets a directory of its own, in the order in which they start:
the same one when the program is started again.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from flintstream.connectors.driver_sinks import CollectSink
from flintstream.engine.options import JobOptions
from flintstream.graph.nodes import SinkNode
from flintstream.planner.plan import Plan

_JOBS = count(1)


def settled(options: JobOptions, root: str | None, plan: Plan) -> JobOptions:
    """Return the options of the next job of this process, with a directory below `root` if it needs one."""
    number = next(_JOBS)
    if root is None or options.checkpoint_dir is not None or collects(plan):
        return options
    return replace(options, checkpoint_dir=f"{root.rstrip('/')}/{number}")


def collects(plan: Plan) -> bool:
    """Whether results go to the memory of the program: one that is started again must get them all again."""
    return any(isinstance(op.node, SinkNode) and isinstance(op.node.sink, CollectSink) for op in plan.operators)
