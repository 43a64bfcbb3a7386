"""Declared joins with reference data to operators; apart from `build.py`, which is a table and shall stay one."""

from __future__ import annotations

from flintstream.model.joins_reference import JoinDeclaration, RegularJoin, TemporalJoin
from flintstream.ops.join_regular import RegularJoinOperator
from flintstream.ops.join_static import StaticJoin, StaticJoinOperator
from flintstream.ops.join_temporal import LatestVersionOperator, TemporalJoinOperator
from flintstream.ops.lookup import LookupJoin, LookupOperator
from flintstream.ops.operator import Operator


def build_join(join: JoinDeclaration) -> Operator:
    """Return a new operator for a declared join."""
    if isinstance(join, TemporalJoin):
        return LatestVersionOperator(join) if join.by_clock else TemporalJoinOperator(join)
    if isinstance(join, RegularJoin):
        return RegularJoinOperator(join)
    if isinstance(join, LookupJoin):
        return LookupOperator(join)
    assert isinstance(join, StaticJoin)
    return StaticJoinOperator(join)
