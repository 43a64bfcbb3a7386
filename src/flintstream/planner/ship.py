"""Packs a plan for the workers."""

from __future__ import annotations

import cloudpickle

from flintstream.planner.plan import Plan


def pack_plan(plan: Plan) -> bytes:
    """Return the plan's bytes."""
    return cloudpickle.dumps(plan)
