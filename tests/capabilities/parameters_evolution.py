"""Parameters of `evolves`: a program is run for a while, then goes on with another version of a class in its state."""

from __future__ import annotations

import dataclasses
from typing import Any

from flintstream import CollectSink, KeyedProcessFunction, ValueStateDescriptor, evolves
from flintstream.errors import IncompatibleStateError
from tests.capabilities.parameters import ABSENT, Bench, case, named
from tests.capabilities.support import Lists, run


def first_version() -> Any:
    @dataclasses.dataclass
    class Bill:
        total: int

    return Bill


def next_version(renamed: Any) -> Any:
    @evolves(**named("renamed", renamed))
    @dataclasses.dataclass
    class Bill:
        amount: int = 0

    return Bill


def moved_version(was: Any) -> Any:
    @evolves(**named("was", was))
    @dataclasses.dataclass
    class Invoice:
        total: int

    return Invoice


class Keeps(KeyedProcessFunction):
    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def open(self, runtime_context):
        self._bill = runtime_context.get_state(ValueStateDescriptor("bill"))

    def process_element(self, value, ctx):
        held = self._bill.value()
        yield type(held).__name__, held is not None and dataclasses.astuple(held)
        self._bill.update(self._cls(7))


def after(bench: Bench, version: Any) -> list[Any]:
    folder, sink = bench.folder(), CollectSink()
    for cls, stop in ((first_version(), 1), (version, None)):
        env = bench.env(max_records=1, checkpoint_dir=folder)

        def declare(env: Any, sink: CollectSink, cls: Any = cls) -> None:
            keyed = env.from_source(Lists([1, 1])).uid("in").key_by(lambda n: n)
            keyed.process(Keeps(cls)).uid("bill").sink_to(sink).uid("out")

        run(env, sink, declare, stop)
    return sink.results


case(
    "evolves.renamed",
    lambda bench, renamed: after(bench, next_version(renamed)),
    (ABSENT, [("NoneType", False), ("Bill", (0,))]),
    ({"total": "amount"}, [("NoneType", False), ("Bill", (7,))]),
)
case(
    "evolves.was",
    lambda bench, was: after(bench, moved_version(was)),
    # The class is gone, and state may not bring one along.
    (ABSENT, IncompatibleStateError),
    (f"{__name__}:Bill", [("NoneType", False), ("Invoice", (7,))]),
)
