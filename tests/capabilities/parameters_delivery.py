"""Parameters of delivery, per job and per sink, and of what becomes of bad records."""

from __future__ import annotations

from typing import Any

from flintstream import CollectSink, DeliveryGuarantee, Isolation, OutputTag
from flintstream.errors import InvalidArgumentError, TypeMismatchError, UnsupportedError, UserFunctionError
from tests.capabilities.parameters import Bench, case
from tests.capabilities.parameters_configs import delivery_of
from tests.capabilities.parameters_keys import key
from tests.capabilities.support import collect

ENV, STREAM, END = "StreamExecutionEnvironment", "DataStream", "DataStreamSink"
BAD = OutputTag("bad")


def sunk(bench: Bench, **asked: Any) -> str:
    env = bench.env()
    env.from_collection([1]).sink_to(CollectSink(), **asked)
    return str(env.guarantee().sinks[0].delivery)


def ended(bench: Bench, *asked: Any, **named: Any) -> str:
    env = bench.env()
    env.from_collection([1]).print().set_delivery(*asked, **named)
    return str(env.guarantee().sinks[0].delivery)


def asked_of_a_job(bench: Bench, guarantee: Any) -> str:
    return delivery_of(bench.env().set_guarantee(guarantee))


case(
    f"{STREAM}.sink_to.guarantee",
    lambda b, g: sunk(b, guarantee=g),
    (None, "exactly-once, read_committed"),
    ("at-most-once", "at-most-once, read_committed"),
    (DeliveryGuarantee.AT_LEAST_ONCE, "at-least-once, read_uncommitted"),
    ("none", UnsupportedError),
    ("twice", InvalidArgumentError),
)
case(
    f"{STREAM}.sink_to.isolation",
    lambda b, i: sunk(b, isolation=i),
    (None, "exactly-once, read_committed"),
    ("read_uncommitted", "exactly-once, read_uncommitted"),
    (Isolation.READ_COMMITTED, "exactly-once, read_committed"),
    ("dirty", InvalidArgumentError),
)
case(
    f"{END}.set_delivery.guarantee",
    ended,
    (None, "at-least-once, read_committed"),
    ("at-most-once", "at-most-once, read_committed"),
    ("exactly-once", UnsupportedError),
)
case(
    f"{END}.set_delivery.isolation",
    lambda b, i: ended(b, isolation=i),
    (None, "at-least-once, read_committed"),
    ("read_uncommitted", "at-least-once, read_uncommitted"),
)
case(
    f"{ENV}.set_guarantee.guarantee",
    asked_of_a_job,
    ("exactly-once", "exactly-once, read_committed"),
    ("at-least-once", "at-least-once, read_uncommitted"),
    (DeliveryGuarantee.AT_MOST_ONCE, "at-most-once, read_committed"),
    ("none", InvalidArgumentError),
)
key(
    "flintstream.guarantee",
    lambda b, env: delivery_of(env),
    ("exactly-once", "exactly-once, read_committed"),
    ("at-most-once", "at-most-once, read_committed"),
    ("often", InvalidArgumentError),
)
key(
    "execution.checkpointing.mode",
    lambda b, env: delivery_of(env),
    ("EXACTLY_ONCE", "exactly-once, read_committed"),
    ("at_least_once", "at-least-once, read_uncommitted"),
    ("ONCE", InvalidArgumentError),
)


def treated(bench: Bench, action: Any, **named: Any) -> list[Any]:
    stream = bench.of("1", "x").map(int).on_error(action, **named)
    if isinstance(action, OutputTag):
        return [letter.record for letter in collect(stream.get_side_output(action))]
    return collect(stream)


def treated_by_default(bench: Bench, action: Any, **named: Any) -> list[Any]:
    sink = CollectSink()
    env = bench.env().set_on_error(sink if action == "sink" else action, **named)
    good = collect(env.from_collection(["1", "x"]).map(int))
    return [good, [each["record"] for each in sink.results]]


case(
    "GoesOn.on_error.action",
    treated,
    ("fail", UserFunctionError),
    ("skip", [1]),
    (BAD, ["x"]),
    ("pray", InvalidArgumentError),
)
case(
    "GoesOn.on_error.errors",
    lambda b, errors: treated(b, "skip", errors=errors),
    (ValueError, [1]),
    ([KeyError, ValueError], [1]),
    (KeyError, UserFunctionError),
    (["ValueError"], TypeMismatchError),
)
case(
    f"{ENV}.set_on_error.action",
    treated_by_default,
    ("fail", UserFunctionError),
    ("skip", [[1], []]),
    ("sink", [[1], ["x"]]),
    ("pray", InvalidArgumentError),
)
case(
    f"{ENV}.set_on_error.errors",
    lambda b, errors: treated_by_default(b, "skip", errors=errors),
    (ValueError, [[1], []]),
    (KeyError, UserFunctionError),
)
