"""Parameters of queryable state, and of the client that looks it up."""

from __future__ import annotations

import contextlib
from typing import Any

from flintstream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    QueryableStateClient,
    ValueStateDescriptor,
    count,
    monotonous,
    tumbling,
)
from flintstream.engine.query import StateView
from flintstream.engine.query_watch import Watch
from flintstream.errors import FlintstreamError, InvalidArgumentError, NoManagerError, TokenError, UnknownStateError
from tests.capabilities.parameters import ABSENT, Bench, case, named

RECORDS = [("ann", 1), ("bob", 2), ("ann", 3)]
FAR = "http://127.0.0.1:9"


class Keep(KeyedProcessFunction):
    """Keeps the newest number, marked as it is told."""

    def __init__(self, name: Any, uncommitted: Any) -> None:
        self._name, self._more = name, named("uncommitted", uncommitted)

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("n")
        descriptor.set_queryable(self._name, **self._more)
        self._state = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._state.update(value[1])
        return ()


def kept(bench: Bench, name: Any = "n", uncommitted: Any = ABSENT) -> QueryableStateClient:
    """Run a job with marked state in two operators, and return a client of it."""
    folder = bench.folder()
    keyed = bench.of(*RECORDS, checkpoint_dir=folder).key_by(0)
    keyed.process(Keep(name, uncommitted)).uid("one").print()
    keyed.process(Keep("both", ABSENT)).uid("two").print()
    keyed.as_queryable_state("both", ListStateDescriptor("l")).uid("three")
    keyed.get_execution_environment().execute("kept")
    return QueryableStateClient(str(folder))


def streamed(bench: Bench, name: Any = "s", descriptor: Any = ABSENT, uncommitted: Any = ABSENT) -> Any:
    folder = bench.folder()
    keyed = bench.of(*RECORDS, checkpoint_dir=folder).key_by(0)
    more = {**named("state_descriptor", descriptor), **named("uncommitted", uncommitted)}
    keyed.as_queryable_state(name, **more).uid("kept")
    keyed.get_execution_environment().execute("streamed")
    return QueryableStateClient(str(folder))


def windows(bench: Bench, name: Any = "w", uncommitted: Any = ABSENT) -> QueryableStateClient:
    """Return a client of a job whose last window never fires, since the job fails before."""
    folder = bench.folder()
    env = bench.env(max_records=1, checkpoint_dir=folder)
    stream = env.from_collection([("a", 1), ("a", 2), ("a", 11), ("stop", 12)])
    timed = stream.assign_timestamps_and_watermarks(monotonous(on=1)).key_by(0)
    windowed = timed.window(tumbling("10ms")).set_queryable(name, **named("uncommitted", uncommitted))
    windowed.agg(n=count()).uid("windows").print()
    timed.map(stop).print()
    with contextlib.suppress(FlintstreamError):
        env.execute("windows")
    return QueryableStateClient(str(folder))


def stop(record: Any) -> Any:
    if record[0] == "stop":
        msg = "stop"
        raise RuntimeError(msg)
    return record


def told(client: QueryableStateClient) -> list[tuple[str, bool]]:
    return [(state["name"], state["uncommitted"]) for state in client.states()]


case("StateDescriptor.set_queryable.queryable_state_name", lambda b, v: told(kept(b, v))[0][0], ("n", "n"), ("x", "x"))
case(
    "StateDescriptor.set_queryable.uncommitted",
    lambda b, v: kept(b, "n", v).get("n", "ann", consistency="uncommitted").value,
    (ABSENT, InvalidArgumentError),
    (True, 3),
)
case(
    "KeyedOperations.as_queryable_state.queryable_state_name",
    lambda b, v: told(streamed(b, v)),
    ("s", [("s", False)]),
    ("t", [("t", False)]),
)
case(
    "KeyedOperations.as_queryable_state.state_descriptor",
    lambda b, v: streamed(b, "s", v).get("s", "ann").value,
    (ABSENT, ["ann", 3]),
    (ListStateDescriptor("l"), [["ann", 1], ["ann", 3]]),
)
case(
    "KeyedOperations.as_queryable_state.uncommitted",
    lambda b, v: told(streamed(b, "s", ABSENT, v)),
    (ABSENT, [("s", False)]),
    (True, [("s", True)]),
)
case(
    "WindowedStream.set_queryable.queryable_state_name",
    lambda b, v: told(windows(b, v)),
    ("w", [("w", False)]),
    ("x", [("x", False)]),
)
case(
    "WindowedStream.set_queryable.uncommitted",
    lambda b, v: told(windows(b, "w", v)),
    (ABSENT, [("w", False)]),
    (True, [("w", True)]),
)
case(
    "QueryableStateClient.__init__.address",
    lambda b, v: QueryableStateClient(v or str(b.folder())).states(),
    ("", UnknownStateError),
    (FAR, InvalidArgumentError),
)
case(
    "QueryableStateClient.__init__.job",
    lambda b, v: QueryableStateClient(FAR, **named("job", v)).states(),
    (ABSENT, InvalidArgumentError),
    ("0" * 32, NoManagerError),
)


def with_token(bench: Bench, token: Any) -> Any:
    """Ask a manager that can be reached from elsewhere, and so demands its token."""
    from tests.queryable.serving import JOB, serving

    folder = bench.folder()
    keyed = bench.of(*RECORDS, checkpoint_dir=folder).key_by(0)
    keyed.as_queryable_state("s").uid("kept")
    keyed.get_execution_environment().execute("kept")
    with serving(folder, {JOB: str(folder)}, is_open=True) as address:
        return QueryableStateClient(address, job=JOB, **named("token", token)).get("s", "bob").value


case("QueryableStateClient.__init__.token", with_token, (ABSENT, TokenError), ("t0ken", ["bob", 2]))
case("QueryableStateClient.get.name", lambda b, v: kept(b).get(v, "ann").value, ("n", 3), ("m", UnknownStateError))
case("QueryableStateClient.get.key", lambda b, v: kept(b).get("n", v).value, ("ann", 3), ("bob", 2), ("eve", None))
case(
    "QueryableStateClient.get.operator",
    lambda b, v: kept(b).get("both", "ann", **named("operator", v)).value,
    (ABSENT, UnknownStateError),
    ("two", 3),
    ("three", [["ann", 1], ["ann", 3]]),
)
case(
    "QueryableStateClient.get.window",
    lambda b, v: windows(b).get("w", "a", **named("window", v)).value,
    (ABSENT, [{"window": {"start": 10, "end": 20}, "value": {"n": 1}}]),
    (10, {"n": 1}),
    ("10,20", {"n": 1}),
    (20, None),
)
case(
    "QueryableStateClient.get.consistency",
    lambda b, v: kept(b).get("n", "ann", **named("consistency", v)).value,
    (ABSENT, 3),
    ("uncommitted", InvalidArgumentError),
)
case(
    "QueryableStateClient.get_many.name",
    lambda b, v: [answer.value for answer in kept(b).get_many(v, ["ann"])],
    ("n", [3]),
    ("m", UnknownStateError),
)
case(
    "QueryableStateClient.get_many.keys",
    lambda b, v: [answer.value for answer in kept(b).get_many("n", v)],
    (["bob", "ann"], [2, 3]),
    ([], []),
)
case(
    "QueryableStateClient.get_many.operator",
    lambda b, v: [answer.value for answer in kept(b).get_many("both", ["bob"], **named("operator", v))],
    (ABSENT, UnknownStateError),
    ("two", [2]),
)
case(
    "QueryableStateClient.get_many.window",
    lambda b, v: [answer.value for answer in windows(b).get_many("w", ["a"], **named("window", v))],
    (10, [{"n": 1}]),
    (20, [None]),
)
case(
    "QueryableStateClient.get_many.consistency",
    lambda b, v: [answer.value for answer in kept(b).get_many("n", ["ann"], **named("consistency", v))],
    (ABSENT, [3]),
    ("uncommitted", InvalidArgumentError),
)


def keys_of(bench: Bench, **more: Any) -> list[Any]:
    return [entry.key for entry in kept(bench).scan(**{"name": "n", **more}).entries]


case("QueryableStateClient.scan.name", lambda b, v: keys_of(b, name=v), ("n", ["ann", "bob"]), ("m", UnknownStateError))
case("QueryableStateClient.scan.prefix", lambda b, v: keys_of(b, prefix=v), (None, ["ann", "bob"]), ("b", ["bob"]))
case("QueryableStateClient.scan.limit", lambda b, v: keys_of(b, limit=v), (1, ["ann"]), (2, ["ann", "bob"]))
case("QueryableStateClient.scan.after", lambda b, v: keys_of(b, after=v), (None, ["ann", "bob"]), ('"ann"', ["bob"]))
case(
    "QueryableStateClient.scan.operator",
    lambda b, v: keys_of(b, name="both", operator=v),
    (None, UnknownStateError),
    ("two", ["ann", "bob"]),
)


def first_of(bench: Bench, *key: Any, **more: Any) -> Any:
    return next(kept(bench).watch(*(more.pop("name", "n"), *key), **more)).value


case("QueryableStateClient.watch.name", lambda b, v: first_of(b, "ann", name=v), ("n", 3), ("m", UnknownStateError))
case("QueryableStateClient.watch.key", lambda b, v: first_of(b, v), ("ann", 3), ("bob", 2))
case("QueryableStateClient.watch.prefix", lambda b, v: first_of(b, prefix=v), ("a", 3), ("b", 2))
case(
    "QueryableStateClient.watch.operator",
    lambda b, v: first_of(b, "bob", name="both", operator=v),
    (None, UnknownStateError),
    ("two", 2),
)
case(
    "QueryableStateClient.watch.window",
    lambda b, v: next(windows(b).watch("w", "a", window=v)).value,
    (10, {"n": 1}),
    (20, None),
)


def watched_since(bench: Bench, since: Any) -> list[Any]:
    """Return what a watch tells that begins in the midst of a job, which then goes on."""
    from flintstream.testing.stepped import InProcess, Line, ScriptedSource, SteppedJob

    def declare(env: Any, folder: Any) -> dict[str, Any]:
        env.from_source(ScriptedSource(folder, "in")).key_by("k").as_queryable_state("s").uid("kept")
        return {}

    job = SteppedJob(declare, bench.folder(), InProcess(), 1)
    job.epoch([Line("in", 0, {"k": "a", "n": 1})])
    watch = Watch(StateView(job.files, "here"), "s", "a", **named("since", since))
    told = [answer.value["n"] for answer in watch.news()]
    job.epoch([Line("in", 0, {"k": "a", "n": 2})])
    told += [answer.value["n"] for answer in watch.news()]
    client = QueryableStateClient(f"{job.folder}/checkpoint")
    assert next(client.watch("s", "a", **named("since", since))).value["n"] == 2
    job.stop()
    return told


case("QueryableStateClient.watch.since", watched_since, (ABSENT, [1, 2]), (1, [2]))
