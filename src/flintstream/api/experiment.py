"""A/B tests and what-if questions: other code from the same point in the past, over the same input.

Both versions run in one job, so that they read the same records once and begin with the same state. What they would
have written comes back to the driver, tagged with the version's name, and is compared there.

Flink: nothing of this kind; there it is two jobs from one savepoint, two reads and a comparison by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from flintstream.api.environment import StreamExecutionEnvironment
from flintstream.api.experiment_report import Comparison, RowKey, compare_outputs
from flintstream.api.replay import Declare, Outputs, Places, replay
from flintstream.errors import InvalidArgumentError
from flintstream.model.connect import Sink
from flintstream.model.location import refused

WHAT_IF = "what-if"


@dataclass(frozen=True)
class Experiment:
    """What came of an A/B test.

    Attributes:
        comparisons: The outputs of both versions compared, by the uid of the sink; printed, they are the report.
        outputs: All records, by version and sink.
    """

    comparisons: dict[str, Comparison]
    outputs: Outputs

    @property
    def is_same(self) -> bool:
        """Whether the versions gave the same."""
        return all(each.is_same for each in self.comparisons.values())

    def tagged(self) -> Iterator[tuple[str, str, Any]]:
        """Return all records with the version and the sink that each is of."""
        return ((version, sink, row) for (version, sink), rows in self.outputs.by_sink.items() for row in rows)

    def __str__(self) -> str:
        return "\n".join(map(str, self.comparisons.values()))


def experiment(
    env: StreamExecutionEnvironment,
    a: Declare,
    b: Declare,
    *,
    key: RowKey | Mapping[str, RowKey] = None,
    savepoint: str | None = None,
    start_from: Places | None = None,
    until: Places | None = "now",
    names: tuple[str, str] = ("A", "B"),
    into: Mapping[str, Sink] | None = None,
    allow_non_restored_state: bool = False,
    trust: bool = False,
) -> Experiment:
    """Run two versions of a program side by side over one read of their input, and compare what they would write.

    The versions' own sinks are never written to. Sinks of both that have the same uid are compared.

    >>> from flintstream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment(runtime="local")
    >>> def version(rate):
    ...     def program(env):
    ...         prices = env.from_collection([("tea", 100), ("pen", 10)])
    ...         prices.map(lambda p: (p[0], p[1] * rate // 100)).print()
    ...     return program
    >>> print(experiment(env, version(19), version(7), key=0))
    print-1: 0 rows are the same, 0 only in A, 0 only in B, 2 differ
      differ
        f0   f1 (A)  f1 (B)
        tea  19      7
        pen  1       0

    Args:
        env: Where to run: its runtime, session and settings are used, its checkpoint directory is not.
        a: The first version, as a function that declares it on an environment.
        b: The second version.
        key: By what rows belong together: fields, or a function of a row; a dict gives one for each sink by its uid.
            Without a key whole rows are compared.
        savepoint: Where both begin, with its state and positions; without one they begin with no state.
        start_from: Where sources begin if there is no savepoint, as in `from_source`, or a dict of such by uid.
        until: Where sources are left as they stand; without effect on those that end by themselves if it is "now".
        names: What the versions are called.
        into: Sinks that get the records as well, by "version:uid" of the sink whose records they are.
        allow_non_restored_state: Drop state of the savepoint that neither version has an operator for.
        trust: Read pickled objects in the savepoint, which can run code.
    """
    if len(names) != 2 or names[0] == names[1]:
        raise refused(InvalidArgumentError, f"the versions are named {names!r:.100}", "give two different names")
    outputs = replay(
        env,
        dict(zip(names, (a, b), strict=True)),
        savepoint=savepoint,
        start_from=start_from,
        until=until,
        into=into,
        allow_non_restored_state=allow_non_restored_state,
        trust=trust,
        job_name=f"{names[0]} and {names[1]}",
    )
    comparisons: dict[str, Comparison] = {}
    for uid in outputs.sinks:
        rows = [outputs.by_sink.get((name, uid), []) for name in names]
        comparisons[uid] = compare_outputs(rows[0], rows[1], _key_for(key, uid), names=names, sink=uid)
    return Experiment(comparisons, outputs)


def _key_for(key: RowKey | Mapping[str, RowKey], sink: str) -> RowKey:
    return cast("Mapping[str, RowKey]", key).get(sink) if isinstance(key, Mapping) else key


def what_if(
    env: StreamExecutionEnvironment,
    program: Declare,
    *,
    savepoint: str | None = None,
    start_from: Places | None = None,
    until: Places | None = "now",
    into: Mapping[str, Sink] | None = None,
    allow_non_restored_state: bool = False,
    trust: bool = False,
) -> Mapping[str, list[Any]]:
    """Run a program from a point in the past, and return what it would have written, by the uid of the sink.

    The program's own sinks are never written to.

    Args:
        env: Where to run: its runtime, session and settings are used, its checkpoint directory is not.
        program: The program, as a function that declares it on an environment.
        savepoint: Where it begins, with its state and positions; without one it begins with no state.
        start_from: Where sources begin if there is no savepoint, as in `from_source`, or a dict of such by uid.
        until: Where sources are left as they stand; without effect on those that end by themselves if it is "now".
        into: Sinks that get the records as well, by the uid of the sink in whose place they stand.
        allow_non_restored_state: Drop state of the savepoint that the program has no operator for.
        trust: Read pickled objects in the savepoint, which can run code.
    """
    outputs = replay(
        env,
        {WHAT_IF: program},
        savepoint=savepoint,
        start_from=start_from,
        until=until,
        into={f"{WHAT_IF}:{uid}": sink for uid, sink in (into or {}).items()},
        allow_non_restored_state=allow_non_restored_state,
        trust=trust,
        job_name=WHAT_IF,
    )
    return {uid: records for (_, uid), records in outputs.by_sink.items()}
