"""Payments of which some cannot be read: they go to files of their own, and the totals are of the others.

`env.set_on_error(sink)` sends every record on which a function raises to a sink, instead of failing the job.

It prints, in any order:

    total> ('ann', 300)
    total> ('bob', 150)
    total> ('ann', 350)
    parse: JSONDecodeError on not JSON at all
    payment: TypeError on {'user': 'ann', 'cents': 'much'}
    payment: KeyError on {'cents': 20}
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from flintstream import FileSink, StreamExecutionEnvironment


def main() -> None:
    folder = Path(tempfile.mkdtemp()) / "dead-letters"
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_on_error(FileSink.json(folder), errors=(ValueError, KeyError, TypeError))
    lines = env.from_collection(
        [
            '{"user": "ann", "cents": 300}',
            "not JSON at all",
            '{"user": "ann", "cents": "much"}',
            '{"user": "bob", "cents": 150}',
            '{"cents": 20}',
            '{"user": "ann", "cents": 50}',
        ]
    )
    payments = lines.map(json.loads).uid("parse").map(lambda p: (p["user"], p["cents"] + 0)).uid("payment")
    payments.key_by(0).sum(1).print("total").set_parallelism(1)
    env.execute("payments")
    for file in sorted(folder.glob("*.json")):
        for line in file.read_text().splitlines():
            letter = json.loads(line)
            print(f"{letter['operator']}: {letter['error']} on {letter['record']}")


if __name__ == "__main__":
    main()
