"""Basic operations on JSON: parse, correct, filter, and a rolling sum for each room.

python examples/json_devices.py                     on embedded Spark
FLINTSTREAM_RUNTIME=local python examples/json_devices.py    in this process

It prints:

    kitchen 18.5
    cellar 11.0
    kitchen 40.0
    cellar 23.5
"""

from __future__ import annotations

import json
from typing import Any

from flintstream import StreamExecutionEnvironment

LINES = [
    '{"device": 1, "place": {"floor": 0, "room": "kitchen"}, "celsius": 18.0}',
    '{"device": 2, "place": {"floor": -1, "room": "cellar"}, "celsius": 10.5}',
    '{"device": 3, "place": {"floor": 2, "room": "attic"}, "celsius": 31.0}',
    '{"device": 1, "place": {"floor": 0, "room": "kitchen"}, "celsius": 21.0}',
    '{"device": 2, "place": {"floor": -1, "room": "cellar"}, "celsius": 12.0}',
]


def corrected(reading: dict[str, Any]) -> dict[str, Any]:
    """All devices show half a degree too little."""
    return {**reading, "celsius": reading["celsius"] + 0.5}


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    readings = env.from_collection(LINES).map(json.loads).map(corrected)
    low = readings.filter(lambda reading: reading["place"]["floor"] <= 0)
    pairs = low.map(lambda reading: (reading["place"]["room"], reading["celsius"]))
    for room, total in pairs.key_by(lambda pair: pair[0]).sum(1).execute_and_collect("json devices"):
        print(room, total)


if __name__ == "__main__":
    main()
