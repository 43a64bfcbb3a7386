"""The guard around a user's code: whatever it raises becomes one error that names the operator and the user's line."""

from __future__ import annotations

from typing import Any

from flintstream.errors import FlintstreamError, UserFunctionError
from flintstream.planner.plan import PlannedOperator


class guarded:
    """Turns whatever a user's function raises into one error that names the operator and the user's line."""

    __slots__ = ("_planned",)

    def __init__(self, planned: PlannedOperator) -> None:
        self._planned = planned

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        node, uid = self._planned.node, self._planned.uid
        if isinstance(error, FlintstreamError):
            if error.location is None:
                raise error.at(node.location, uid) from None
        elif isinstance(error, Exception):
            raise UserFunctionError.from_exception(error, operator=node.name, uid=uid, declared=node.location) from None
