"""Programs that look for patterns: records carry a letter in `v`; a match is shown as `stage:times` of its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flintstream import DataStream, OutputTag
from flintstream.cep import CEP, NearMiss, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
from tests.patterns import letters
from tests.spec.functions import show, show_late, show_time
from tests.spec.programs import program

LATE, OVER, MISSES = OutputTag("late"), OutputTag("over"), OutputTag("misses")


def show_match(match: dict[str, list[Any]]) -> str:
    """Return a match as `key a:1 b:2,3`."""
    records = [record for taken in match.values() for record in taken]
    stages = [f"{name}:{','.join(show_time(record['t']) for record in taken)}" for name, taken in match.items()]
    return show(records[0]["key"], *stages)


def show_over(match: dict[str, list[Any]], time: int) -> str:
    return show(show_match(match), "at", show_time(time))


def show_miss(miss: NearMiss) -> str:
    ended = "" if miss.event is None else f"by {show_time(miss.event['t'])}"
    return show(show_match(miss.match), miss.reason, miss.pattern, ended)


class Tell(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Shows matches with their times, and what timed out as well."""

    def process_match(self, match: Any, ctx: Any) -> Any:
        yield show(show_match(match), "at", show_time(ctx.timestamp()))

    def process_timed_out_match(self, match: Any, ctx: Any) -> Any:
        yield OVER, show_over(match, ctx.timestamp())


@program
def pattern(
    stream: DataStream,
    pattern: str = "",
    text: str = "",
    keyed: bool = True,
    clock: bool = False,
    sides: tuple[str, ...] = (),
) -> dict[str, DataStream]:
    """Matches of a pattern in the words of tests/patterns.py, or of a text; `sides` are `late`, `over` and `misses`."""
    wanted = Pattern.parse(text) if text else letters(pattern)
    matches = CEP.pattern(stream.key_by("key") if keyed else stream, wanted)
    matches = matches.in_processing_time() if clock else matches
    matches = matches.side_output_late_data(LATE) if "late" in sides else matches
    matches = matches.near_misses(MISSES) if "misses" in sides else matches
    over: Any = {"pattern_timeout_function": show_over, "timed_out_partial_matches_tag": OVER}
    found = matches.select(show_match, **(over if "over" in sides else {}))
    outputs = {"main": found.uid("pattern")}
    if "over" in sides:
        outputs["over"] = found.get_side_output(OVER)
    if "late" in sides:
        outputs["late"] = found.get_side_output(LATE).map(show_late).uid("late as text")
    if "misses" in sides:
        outputs["misses"] = found.get_side_output(MISSES).map(show_miss).uid("misses as text")
    return outputs


@program
def patterns(stream: DataStream, **named: str) -> dict[str, DataStream]:
    """Several patterns in the same records, each with an output of its name."""
    keyed = stream.key_by("key")
    return {
        name: CEP.pattern(keyed, letters(each)).select(show_match).uid(f"pattern {name}")
        for name, each in named.items()
    }


@program
def ways(stream: DataStream, pattern: str) -> dict[str, DataStream]:
    """One pattern, whose matches and timeouts are taken in every way there is."""
    keyed, wanted = stream.key_by("key"), letters(pattern)
    one = CEP.pattern(keyed, wanted).select(
        show_match, pattern_timeout_function=show_over, timed_out_partial_matches_tag=OVER
    )
    each = CEP.pattern(keyed, wanted).flat_select(
        lambda match: [show_match(match)] * 2,
        pattern_flat_timeout_function=lambda match, time: [show_over(match, time)] * 2,
        timed_out_partial_matches_tag=OVER,
    )
    found = {"select": one, "flat": each, "process": CEP.pattern(keyed, wanted).process(Tell())}
    main = {name: stream.uid(f"pattern {name}") for name, stream in found.items()}
    return {**main, **{f"{name} over": stream.get_side_output(OVER) for name, stream in found.items()}}


@dataclass(frozen=True)
class Reading:
    key: str
    t: int
    v: str


@dataclass(frozen=True)
class Alarm(Reading):
    pass


def as_reading(row: dict[str, Any]) -> Reading:
    kind = Alarm if row["v"][0] == "!" else Reading
    return kind(row["key"], row["t"], row["v"])


@program
def pattern_of_classes(stream: DataStream) -> DataStream:
    """Any reading, and an alarm after it."""
    wanted = Pattern.begin("any").followed_by("alarm").subtype(Alarm).where(lambda alarm: alarm.v != "!x").within("10s")
    matches = CEP.pattern(stream.map(as_reading).uid("readings").key_by("key"), wanted)
    return matches.select(lambda m: show(m["any"][0].key, m["any"][0].v, m["alarm"][0].v)).uid("pattern")
