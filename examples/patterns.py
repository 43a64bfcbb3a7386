"""Patterns: smoke that follows heat within ten minutes, jumps of the temperature, and what nearly was an alarm.

It prints:

    fire in the hall: heat at minute 0, smoke at minute 8
    the attic came to nothing at 'smoke' (timeout)
    the hall rose by 25 degrees from minute 20 to 21
"""

from __future__ import annotations

from flintstream import CollectSink, OutputTag, StreamExecutionEnvironment, monotonous
from flintstream.cep import CEP, ConditionContext, Pattern

MINUTE = 60_000
READINGS = [
    {"sensor": "hall", "minute": 0, "celsius": 70, "smoke": False},
    {"sensor": "attic", "minute": 1, "celsius": 70, "smoke": False},
    {"sensor": "hall", "minute": 8, "celsius": 70, "smoke": True},
    {"sensor": "attic", "minute": 12, "celsius": 30, "smoke": True},
    {"sensor": "hall", "minute": 20, "celsius": 20, "smoke": False},
    {"sensor": "hall", "minute": 21, "celsius": 45, "smoke": False},
]
NEAR_MISSES = OutputTag("near misses")


def rises(reading: dict, ctx: ConditionContext) -> bool:
    """Whether a reading is more than 20 degrees above the first one of the match."""
    (first,) = ctx.get_events_for_pattern("low")
    return reading["celsius"] - first["celsius"] > 20


def fire(match: dict) -> str:
    heat, smoke = match["heat"][0], match["smoke"][0]
    return f"fire in the {heat['sensor']}: heat at minute {heat['minute']}, smoke at minute {smoke['minute']}"


def rise(match: dict) -> str:
    low, high = match["low"][0], match["high"][0]
    degrees = high["celsius"] - low["celsius"]
    return f"the {low['sensor']} rose by {degrees} degrees from minute {low['minute']} to {high['minute']}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stamped = [{**reading, "ts": reading["minute"] * MINUTE} for reading in READINGS]
    readings = env.from_collection(stamped).assign_timestamps_and_watermarks(monotonous(on="ts")).key_by("sensor")

    heat_then_smoke = (
        Pattern.begin("heat")
        .where(lambda reading: reading["celsius"] > 60 and not reading["smoke"])
        .followed_by("smoke")
        .where(lambda reading: reading["smoke"])
        .within("10min")
    )
    fires = CEP.pattern(readings, heat_then_smoke).near_misses(NEAR_MISSES).select(fire)
    misses = fires.get_side_output(NEAR_MISSES).map(
        lambda miss: f"the {miss.match['heat'][0]['sensor']} came to nothing at {miss.pattern!r} ({miss.reason})"
    )
    jump = Pattern.begin("low").next("high").where(rises).within("2min")
    sinks = [CollectSink(), CollectSink(), CollectSink()]
    for stream, sink in zip((fires, misses, CEP.pattern(readings, jump).select(rise)), sinks, strict=True):
        stream.sink_to(sink)
    env.execute("patterns")
    for sink in sinks:
        print("\n".join(sink.results))


if __name__ == "__main__":
    main()
