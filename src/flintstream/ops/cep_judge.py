"""Conditions on columns: what is known of a stretch of records before any of them is looked at.

Apart from the operator because it is one step with one result: a table of what holds, and which records may be left out
since they begin no match. Python rows are made of the others only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flintstream.ops.cep_choices import Outcome, choice_of
from flintstream.ops.cep_match import Known
from flintstream.ops.cep_nodes import Automaton
from flintstream.state.codec import Kind

_NAMED = ("row", "dict", "class")
Flags = npt.NDArray[np.bool_]


class Verdict(NamedTuple):
    """What is known: of each record which conditions hold, and whether it may begin a match (None: any may).

    `tests` are what to ask for the conditions of which nothing is known. Records that are not `heard` change nothing,
    whatever partial matches there are.
    """

    known: Iterable[Known | None]
    begins: Flags | None
    tests: list[Callable[..., Any]]
    heard: Flags | None = None


class Judge:
    """Computes the conditions of an automaton on columns, as far as that can be."""

    def __init__(self, automaton: Automaton) -> None:
        self._start, self._conditions = automaton.start, automaton.conditions
        self.has_columns = any(condition.columns is not None for condition in self._conditions)
        self._leaves_out = _leaves_out_what_fits_nothing(automaton)

    def judge(self, records: pa.Array, kind: Kind) -> Verdict:
        """Return what is known of some records."""
        tests = [condition.test for condition in self._conditions]
        if not self.has_columns or not _has_fields(records, kind):
            return Verdict(repeat(None), None, tests)
        flags: dict[int, Flags] = {}
        for number, condition in enumerate(self._conditions):
            computed = None if condition.columns is None else condition.columns(records)
            if computed is None:
                continue
            flags[number] = computed.fill_null(False).to_numpy(zero_copy_only=False)
            if condition.rest is not None:
                tests[number] = condition.rest
        settled = {number for number in flags if self._conditions[number].rest is None}
        columns = [self._column(number, flags.get(number), number in settled) for number in range(len(tests))]
        known = zip(*columns) if flags else repeat(None)  # noqa: B905 - those that are not known are endless
        is_all = self._leaves_out and len(flags) == len(tests)
        heard = np.logical_or.reduce(list(flags.values())) if is_all else None
        return Verdict(known, self._begins(flags, settled), tests, heard)

    def _column(self, number: int, flags: Flags | None, is_settled: bool) -> Iterable[bool | None]:
        if flags is None:
            return repeat(None)
        return flags.tolist() if is_settled else [None if flag else False for flag in flags.tolist()]

    def _begins(self, flags: dict[int, Flags], settled: set[int]) -> Flags | None:
        """Return which records may begin a match, None if any may; one that may need not."""
        if not flags:
            return None
        begins = np.zeros(len(next(iter(flags.values()))), np.bool_)
        for edge in self._start:
            needed = [flags[number] for number in edge.yes if number in flags]
            if not needed:
                return None
            excluded = [~flags[number] for number in edge.no if number in settled]
            begins |= np.logical_and.reduce([*needed, *excluded])
        return begins


def _leaves_out_what_fits_nothing(automaton: Automaton) -> bool:
    """Whether a record that fulfils no condition changes nothing at any place: so it is unless `next` is used."""
    none = dict.fromkeys(range(len(automaton.conditions)), False)
    trees = [choice_of(place, node.edges, none) for place, node in automaton.nodes.items()]
    return all(isinstance(each, Outcome) and each.is_idle for each in (*trees, choice_of(None, automaton.start, none)))


def _has_fields(records: pa.Array, kind: Kind) -> bool:
    return type(kind) is list and kind[0] in _NAMED and not records.null_count and len(records.type) > 0
