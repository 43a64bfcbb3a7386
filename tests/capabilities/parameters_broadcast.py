"""Parameters of broadcast streams and of streams that are connected with one."""

from __future__ import annotations

from typing import Any

from flintstream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
)
from flintstream.errors import DefinitionError, InvalidArgumentError, TypeMismatchError
from tests.capabilities.parameters import Bench, case
from tests.capabilities.support import collect

STREAM, BOTH = "DataStream", "BroadcastConnectedStream"
FIRST, SECOND = MapStateDescriptor("first"), MapStateDescriptor("second")
MORTAL = MapStateDescriptor("mortal")
MORTAL.enable_time_to_live(StateTtlConfig.new_builder(1000).build())


class Fill(BroadcastProcessFunction):
    """Puts what is broadcast into one state, and says of what it reads how much is there."""

    def __init__(self, into: MapStateDescriptor) -> None:
        self._into = into

    def process_element(self, value, ctx):
        yield value, list(ctx.get_broadcast_state(self._into).keys())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(self._into).put(value, True)


class KeyedFill(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_current_key(), list(ctx.get_broadcast_state(FIRST).keys())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(FIRST).put(value, True)


def filled(bench: Bench, descriptors: tuple[Any, ...], into: MapStateDescriptor = FIRST) -> list[Any]:
    env = bench.env()
    rules = env.from_collection([7]).broadcast(*descriptors)
    return collect(env.from_collection([1]).connect(rules).process(Fill(into)))


def processed(bench: Bench, function: Any, by_key: bool = False, **named: Any) -> list[Any]:
    env = bench.env()
    rules = env.from_collection([7]).broadcast(FIRST)
    events: Any = env.from_collection([1])
    return collect((events.key_by(lambda n: n * 10) if by_key else events).connect(rules).process(function, **named))


case(
    f"{STREAM}.broadcast.broadcast_state_descriptor",
    lambda b, d: filled(b, (d,)) if d is not None else collect(b.of(1).broadcast().map(str)),
    (None, ["1", "1"]),
    (FIRST, [(1, [7])]),
    (SECOND, DefinitionError),
    (MORTAL, DefinitionError),
    ("first", TypeMismatchError),
)
case(
    f"{STREAM}.broadcast.other_broadcast_state_descriptors",
    lambda b, more: filled(b, (FIRST, *more), SECOND),
    ((), DefinitionError),
    ((SECOND,), [(1, [7])]),
    ((SECOND, SECOND), InvalidArgumentError),
    ((SECOND, 1), TypeMismatchError),
)
case(
    f"{BOTH}.process.func",
    processed,
    (Fill(FIRST), [(1, [7])]),
    (Fill(SECOND), DefinitionError),
    (KeyedFill(), DefinitionError),
    (print, TypeMismatchError),
    (Fill, TypeMismatchError),
)
case(
    f"{BOTH}.process.func",
    lambda b, function: processed(b, function, by_key=True),
    (KeyedFill(), [(10, [7])]),
    (Fill(FIRST), DefinitionError),
)
case(
    f"{BOTH}.process.output_type",
    lambda b, t: processed(b, Fill(FIRST), output_type=t),
    (None, [(1, [7])]),
    (Types.TUPLE([Types.DOUBLE(), Types.LIST(Types.INT())]), [(1.0, [7])]),
    (Types.STRING(), TypeMismatchError),
)
