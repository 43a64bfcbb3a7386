"""A program that does to its state what its input says, and a model that does the same to dicts."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flintstream import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.testing.stepped import InProcess, Line, ScriptedSource, SteppedJob

TTL = 10
"""How many ms entries of the state "short" live."""


def queryable(descriptor: Any, name: str, uncommitted: bool = True) -> Any:
    """Return a descriptor with a mark."""
    descriptor.set_queryable(name, uncommitted)
    return descriptor


def short(cleaned: bool) -> Any:
    """Return the descriptor of state that expires."""
    builder = StateTtlConfig.new_builder(TTL)
    config = builder.build() if cleaned else builder.disable_cleanup_in_background().build()
    descriptor = queryable(ValueStateDescriptor("short" if cleaned else "stale"), "short" if cleaned else "stale")
    descriptor.enable_time_to_live(config)
    return descriptor


class Play(KeyedProcessFunction):
    """Does what records say."""

    def open(self, runtime_context: Any) -> None:
        get = runtime_context
        self.value = get.get_state(queryable(ValueStateDescriptor("v"), "value"))
        self.list = get.get_list_state(queryable(ListStateDescriptor("l"), "list"))
        self.map = get.get_map_state(queryable(MapStateDescriptor("m"), "map"))
        self.short = get.get_state(short(cleaned=True))
        self.stale = get.get_state(short(cleaned=False))

    def process_element(self, value: Any, ctx: Any) -> Any:
        what, held = value["do"], value["with"]
        if what == "put":
            self.value.update(held)
        elif what == "add":
            self.list.add(held)
        elif what == "drop":
            self.list.clear()
        elif what == "set":
            self.map.put(*held)
        elif what == "unset":
            self.map.remove(held)
        else:
            self.short.update(held)
            self.stale.update(held)
        return ()


def play(env: Any, folder: Path) -> dict[str, Any]:
    stream = env.from_source(ScriptedSource(folder, "in", 1)).uid("in")
    return {"main": stream.key_by(lambda row: row["key"]).process(Play()).uid("play")}


@dataclass
class Model:
    """What the state should be."""

    value: dict[Any, Any] = field(default_factory=dict)
    list: dict[Any, Any] = field(default_factory=dict)
    map: dict[Any, Any] = field(default_factory=dict)
    short: dict[Any, tuple[Any, int]] = field(default_factory=dict)

    def do(self, key: Any, what: str, held: Any, now: int) -> None:
        if what == "put":
            self.value[key] = held
        elif what == "add":
            self.list.setdefault(key, []).append(held)
        elif what == "drop":
            self.list.pop(key, None)
        elif what == "set":
            self.map.setdefault(key, {})[held[0]] = held[1]
        elif what == "unset":
            self.map.get(key, {}).pop(held, None)
        else:
            self.short[key] = (held, now)

    def expected(self, now: int) -> dict[str, dict[Any, Any]]:
        """Return what each state should answer, by key; a key that is not there has nothing."""
        alive = {key: value for key, (value, since) in self.short.items() if since + TTL > now}
        return {
            "value": {key: value for key, value in self.value.items() if value is not None},
            "list": dict(self.list),
            "map": {key: dict(held) for key, held in self.map.items() if held},
            "short": alive,
            "stale": alive,
        }

    def copy(self) -> Model:
        return copy.deepcopy(self)


Do = tuple[Any, str, Any]
"""A key, what to do, and with what."""


class Played:
    """The program and its model, side by side, epoch by epoch."""

    def __init__(self, folder: Path, parallelism: int = 2) -> None:
        self.job = SteppedJob(play, folder, InProcess(), parallelism)
        self.model = Model()
        self.history: dict[int, dict[str, dict[Any, Any]]] = {}

    @property
    def where(self) -> str:
        return str(self.job.folder / "checkpoint")

    def epoch(self, steps: Iterable[Do], crash: str = "", parallelism: int | None = None) -> None:
        """Run an epoch, which may be cut off before or after its commit; then the program starts again."""
        steps = list(steps)
        for key, what, held in steps:
            self.model.do(key, what, held, self.job.now)
        epoch = 1 if self.job.manifest is None else self.job.manifest.epoch + 1
        self.history[epoch] = self.model.copy().expected(self.job.now)
        lines = [Line("in", 0, {"key": key, "do": what, "with": held}) for key, what, held in steps]
        if crash:
            self.job.crash(lines, committed=crash == "committed", parallelism=parallelism)
        else:
            self.job.epoch(lines)

    def advance(self, ms: int) -> None:
        self.job.now += ms
