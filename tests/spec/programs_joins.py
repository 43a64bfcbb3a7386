"""Programs of joins in time. With one source, the column `side` says whether a record is `L` or `R`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flintstream import (
    CoGroupFunction,
    CountEvictor,
    CountTrigger,
    DataStream,
    FlatJoinFunction,
    OutputTag,
    ProcessFunction,
    ProcessJoinFunction,
    TumblingProcessingTimeWindows,
    ValueStateDescriptor,
    session,
    sliding,
    tumbling,
)
from tests.spec.functions import show, show_late, show_time
from tests.spec.programs import program

LATE = {"left late": OutputTag("left late"), "right late": OutputTag("right late")}
ALONE = {"left alone": OutputTag("left alone"), "right alone": OutputTag("right alone")}


def on_left(row: dict[str, Any]) -> bool:
    return row["side"] == "L"


def on_right(row: dict[str, Any]) -> bool:
    return row["side"] == "R"


def sides(left: DataStream, right: DataStream | None) -> tuple[DataStream, DataStream]:
    if right is not None:
        return left, right
    return left.filter(on_left).uid("left side"), left.filter(on_right).uid("right side")


def shown(row: dict[str, Any] | None) -> str:
    return "none" if row is None else f"{show_time(row['t'])}:{row['v']}"


def both(left: dict[str, Any] | None, right: dict[str, Any] | None) -> str:
    some = left or right
    assert some is not None
    return show(some["key"], shown(left), shown(right))


class At(ProcessFunction):
    """Shows a pair with its timestamp."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        text = value if isinstance(value, str) else both(*value)
        yield show(text, "at", show_time(ctx.timestamp()))


class AloneAt(ProcessFunction):
    """Shows a record that met none with its timestamp."""

    def process_element(self, value: Any, ctx: Any) -> Iterable[str]:
        yield show(value["key"], shown(value), "at", show_time(ctx.timestamp()))


class Apart(ProcessJoinFunction):
    """Shows how far apart two records are, and which pair of its key it is."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any]:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        apart = ctx.get_right_timestamp() - ctx.get_left_timestamp()
        yield show(ctx.get_current_key(), "pair", str(number), show_time(apart), "at", show_time(ctx.get_timestamp()))


@program
def interval_join(
    left: DataStream,
    right: DataStream | None = None,
    lower: str = "0s",
    upper: str = "10s",
    how: str = "inner",
    exclusive: str = "",
    alone: bool = False,
    function: str = "pairs",
) -> dict[str, DataStream]:
    first, second = sides(left, right)
    joined = first.key_by("key").interval_join(second.key_by("key"), how=how).between(lower, upper)
    joined.side_output_left_late_data(LATE["left late"]).side_output_right_late_data(LATE["right late"])
    if "lower" in exclusive:
        joined.lower_bound_exclusive()
    if "upper" in exclusive:
        joined.upper_bound_exclusive()
    if alone:
        joined.side_output_left_unmatched(ALONE["left alone"]).side_output_right_unmatched(ALONE["right alone"])
    functions = {"pairs": None, "text": both, "apart": Apart()}
    result = joined.process(functions[function]).uid("join")
    outputs = {name: result.get_side_output(tag).map(show_late).uid(name) for name, tag in LATE.items()}
    if alone:
        outputs |= {name: result.get_side_output(tag).process(AloneAt()).uid(name) for name, tag in ALONE.items()}
    return {"main": result if function == "apart" else result.process(At()).uid("shown")} | outputs


WINDOWS = {
    "tumbling": lambda: tumbling("10s"),
    "sliding": lambda: sliding("10s", "5s"),
    "session": lambda: session("5s"),
    "clock": lambda: TumblingProcessingTimeWindows.of(10_000),
}


class Twice(FlatJoinFunction):
    """Shows each pair of even numbers twice, and no other."""

    def join(self, first: Any, second: Any) -> Iterable[str]:
        if first["v"] % 2 == 0 and second["v"] % 2 == 0:
            yield from [both(first, second)] * 2


class Counts(CoGroupFunction):
    """Shows how many records there are on both sides, and their values."""

    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[str]:
        lefts, rights = list(first), list(second)
        key = (lefts + rights)[0]["key"]
        yield show(key, f"[{show([r['v'] for r in lefts])}]", f"[{show([r['v'] for r in rights])}]")


def of_windows(windows: Any, lateness: str, trigger: int, evictor: int, late: bool) -> Any:
    if late:
        windows.side_output_left_late_data(LATE["left late"]).side_output_right_late_data(LATE["right late"])
    if lateness:
        windows.allowed_lateness(lateness)
    if trigger:
        windows.trigger(CountTrigger.of(trigger))
    return windows.evictor(CountEvictor.of(evictor)) if evictor else windows


def with_late(result: DataStream, shown: DataStream, late: bool) -> dict[str, DataStream]:
    tags = LATE if late else {}
    return {"main": shown} | {n: result.get_side_output(tag).map(show_late).uid(n) for n, tag in tags.items()}


@program
def window_join(
    left: DataStream,
    right: DataStream | None = None,
    window: str = "tumbling",
    how: str = "inner",
    function: str = "text",
    lateness: str = "",
    trigger: int = 0,
    evictor: int = 0,
) -> dict[str, DataStream]:
    first, second = sides(left, right)
    windows = first.join(second, how=how).where("key").equal_to("key").window(WINDOWS[window]())
    late = window != "clock"
    windows = of_windows(windows, lateness, trigger, evictor, late)
    result = windows.apply({"text": both, "pairs": None, "twice": Twice()}[function]).uid("join")
    return with_late(result, result.process(At()).uid("shown") if late else result, late)


@program
def window_co_group(
    left: DataStream,
    right: DataStream | None = None,
    window: str = "tumbling",
    lateness: str = "",
    trigger: int = 0,
    evictor: int = 0,
) -> dict[str, DataStream]:
    first, second = sides(left, right)
    windows = first.co_group(second).where("key").equal_to(lambda row: row["key"]).window(WINDOWS[window]())
    result = of_windows(windows, lateness, trigger, evictor, late=True).apply(Counts()).uid("groups")
    return with_late(result, result, late=True)
