"""Runs a user's watermark generator over the records of one lane, and keeps what it remembers between epochs.

A generator needs all records of its lane in order, so a lane has one chunk per epoch under it (the planner sees to
that). Its attributes are the lane's memory: they travel as text with the lane, into the manifest and out of it. The
object itself is made anew by its supplier, so a checkpoint holds data and no code, and newer code can go on with it.

Flink: TimestampsAndWatermarksOperator and WatermarkOutputMultiplexer, which emit a record before its watermark.
"""

from __future__ import annotations

import base64
import pickle
from typing import Any, Protocol, cast

import cloudpickle
import numpy as np

from flintstream.errors import IncompatibleStateError, TypeMismatchError, UnserialisableFunctionError, describe
from flintstream.model.watermark_generators import GeneratorSupplier, Watermark, WatermarkGenerator, WatermarkOutput
from flintstream.ops.batch import I64, Values

_KIND = "generator:"


class LaneMemory(Protocol):
    """What a strategy knows of a lane besides its watermark.

    `estimates` are pairs (watermark, share): from that watermark on it believes that share of all records to have come.
    """

    estimates: list[tuple[int, float]]

    @property
    def idle(self) -> bool:
        """Whether it has left the minimum by itself."""
        ...

    def advance(self, values: Values, timestamps: I64) -> I64:
        """Take in records and return the watermark after each; whether it falls is not its business."""
        ...

    def dump(self) -> str:
        """Return the memory as text."""
        ...


class LaneOutput(WatermarkOutput):
    """The output of one lane's generator."""

    __slots__ = ("idle", "level")

    def __init__(self, level: int, idle: bool) -> None:
        self.level = level
        self.idle = idle

    def emit_watermark(self, watermark: Watermark | int) -> None:
        level = watermark.timestamp if isinstance(watermark, Watermark) else watermark
        if not isinstance(cast("Any", level), int):
            what = f"a watermark generator emitted {watermark!r:.100}, which is not a watermark"
            raise TypeMismatchError(describe(what, None, "emit a Watermark or the number of milliseconds"))
        self.idle = False
        self.level = max(self.level, level)

    def mark_idle(self) -> None:
        self.idle = True

    def mark_active(self) -> None:
        self.idle = False


class GeneratorMemory:
    """A lane under a user's generator."""

    def __init__(self, supplier: GeneratorSupplier, text: str, level: int, idle: bool) -> None:
        self._generator = supplier()
        if not isinstance(cast("Any", self._generator), WatermarkGenerator):
            what = f"{supplier!r} made {self._generator!r:.100}, which is no WatermarkGenerator"
            raise TypeMismatchError(describe(what, None, "pass a subclass of WatermarkGenerator, or a function"))
        self._output = LaneOutput(level, idle)
        self.estimates: list[tuple[int, float]] = []
        if text.startswith(_KIND):
            _remember(self._generator, text.removeprefix(_KIND))

    @property
    def idle(self) -> bool:
        """Whether the generator marked its split idle."""
        return self._output.idle

    def advance(self, values: Values, timestamps: I64) -> I64:
        output = self._output
        on_event, on_periodic_emit = self._generator.on_event, self._generator.on_periodic_emit
        levels: list[int] = []
        for event, timestamp in zip(values.rows(), timestamps.tolist(), strict=True):
            on_event(event, timestamp, output)
            on_periodic_emit(output)
            levels.append(output.level)
        return np.array(levels, np.int64)

    def dump(self) -> str:
        try:
            data = cloudpickle.dumps(self._generator.__getstate__())
        except Exception as error:  # what the user's attributes raise may be anything
            what = f"watermark generator {type(self._generator).__name__} holds what cannot be kept ({error})"
            remedy = "let it hold numbers, texts and containers only: its attributes are kept with the split"
            raise UnserialisableFunctionError(describe(what, None, remedy)) from None
        return _KIND + base64.b64encode(data).decode()


def _remember(generator: WatermarkGenerator, text: str) -> None:
    """Give a new generator the attributes it had, as `copy` and `pickle` do."""
    try:
        state: Any = pickle.loads(base64.b64decode(text))
        if hasattr(generator, "__setstate__"):
            cast("Any", generator).__setstate__(state)
            return
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        for name, value in {**(attributes or {}), **(slots or {})}.items():
            setattr(generator, name, value)
    except Exception as error:  # newer code may be unable to go on with it in any way
        what = f"watermark generator {type(generator).__name__} cannot go on with what was kept ({error})"
        remedy = "give the generator its old attributes, or the strategy another uid(...) to begin anew"
        raise IncompatibleStateError(describe(what, None, remedy)) from error
