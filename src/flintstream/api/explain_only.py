"""A program that is run only to be explained: it gets as far as its first `execute()`, tells its plan and leaves.

The plan goes to a file, because the program's own prints are on stdout. Separate from the program, which only asks
whether it is so.

Flink: `flink info`, which prints the plan of a program without running it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from flintstream.api.settings import JobSettings
from flintstream.planner.explain import explain_plan, plan_as_json
from flintstream.planner.plan import Plan

VARIABLE = "FLINTSTREAM_EXPLAIN"
"""Names the file that the plan goes to; where it is set, no job runs."""


def leave_if_only_explained(plan: Plan, settings: JobSettings, descriptions: dict[int, str]) -> None:
    """End the program after writing its plan, if it was started for that."""
    where = os.environ.get(VARIABLE)
    if where is None:
        return
    document = {
        "name": plan.name,
        "text": explain_plan(plan, settings.runtime, settings.state_directory, descriptions),
        "plan": json.loads(plan_as_json(plan, descriptions)),
    }
    Path(where).write_text(json.dumps(document))
    # Not an Exception: a program that catches those does not run its job after all.
    raise SystemExit(0)
