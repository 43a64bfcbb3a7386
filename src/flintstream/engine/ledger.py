"""The ledger of an epoch: every task reported once, of one attempt, and no record was lost or doubled on the way."""

from __future__ import annotations

from collections.abc import Sequence

from flintstream.engine.epoch import EpochContext, TaskReport, producer_id
from flintstream.errors import LedgerError, describe
from flintstream.graph.nodes import SourceNode
from flintstream.planner.plan import Plan

_AGAIN = "the epoch runs again"


def check_reports(plan: Plan, context: EpochContext, reports: Sequence[TaskReport]) -> None:
    """Raise LedgerError unless the reports of an epoch balance."""
    attempts: dict[int, int] = {}
    for report in reports:
        producer = producer_id(report.level, report.partition)
        if producer in attempts:
            raise LedgerError(
                describe(f"partition {report.partition} of level {report.level} reported twice", None, _AGAIN)
            )
        attempts[producer] = report.attempt
    for level in range(1, plan.levels):
        missing = [p for p in range(plan.partitions(level)) if producer_id(level, p) not in attempts]
        if missing:
            raise LedgerError(describe(f"partitions {missing} of level {level} did not report", None, _AGAIN))
    read = sorted(index for report in reports for index in report.ranges)
    if read != _ranges_read_here(plan, context):
        raise LedgerError(describe(f"of {len(context.ranges)} source ranges {read} were read", None, _AGAIN))
    _check_attempts(reports, attempts)
    _check_edges(reports)


def _ranges_read_here(plan: Plan, context: EpochContext) -> list[int]:
    """Return the ranges that level 0 itself reads; those with column expressions behind them reach it as rows."""
    nodes = [plan.operator(piece.source).node for piece in context.ranges]
    return [index for index, node in enumerate(nodes) if not (isinstance(node, SourceNode) and node.native)]


def _check_attempts(reports: Sequence[TaskReport], attempts: dict[int, int]) -> None:
    """A lost executor can make Spark rerun half of a stage: then some read the old output and some the new."""
    for report in reports:
        for producer, attempt in report.seen.items():
            if attempts.get(producer) != attempt:
                what = f"partition {report.partition} of level {report.level} read a dead attempt of task {producer}"
                raise LedgerError(describe(what, None, _AGAIN))


def _check_edges(reports: Sequence[TaskReport]) -> None:
    sent: dict[int, int] = {}
    received: dict[int, int] = {}
    for report in reports:
        for edge, count in report.sent.items():
            sent[edge] = sent.get(edge, 0) + count
        for edge, count in report.received.items():
            received[edge] = received.get(edge, 0) + count
    for edge in sent.keys() | received.keys():
        if sent.get(edge, 0) != received.get(edge, 0):
            what = f"edge {edge} sent {sent.get(edge, 0)} records and {received.get(edge, 0)} arrived"
            raise LedgerError(describe(what, None, _AGAIN))
