"""What measuring costs: the keyed benchmark with metrics and a written report, against the same with both off.

Machines are noisier than what is looked for, so programs with and without take turns, and each pair gives one ratio of
their rates; the median of the pairs counts.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "rivals"))
from report import argument_parser, scratch

HERE = Path(__file__).parent


def rate_of(arguments: list[str], *, measured: bool) -> float:
    """Run the keyed benchmark once, and return its events per second."""
    with scratch("metrics-report") as folder:
        settings = {"flintstream.metrics": "true" if measured else "false"}
        variables = {**os.environ, "FLINTSTREAM_SETTINGS": json.dumps(settings)}
        if measured:
            variables["FLINTSTREAM_REPORT"] = str(folder)
        done = subprocess.run(
            [sys.executable, str(HERE / "keyed.py"), *arguments],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        if measured and not (folder / "epochs.jsonl").exists():
            raise SystemExit("no report was written")
    line = [line for line in done.stdout.splitlines() if line.startswith("{")][-1]
    return float(json.loads(line)["events_per_second"])


def main() -> None:
    parser = argument_parser(__doc__, events=20_000_000, keys=100_000)
    parser.add_argument("--pairs", type=int, default=5, help="how often each of the two runs")
    parser.add_argument("--runtime", default="spark")
    args = parser.parse_args()
    arguments = ["--events", str(args.events), "--keys", str(args.keys), "--parallelism", str(args.parallelism)]
    arguments += ["--runtime", args.runtime]
    ratios: list[float] = []
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in range(args.pairs):
        # Who comes first changes, so that a machine that slows down favours neither.
        order = (True, False) if number % 2 else (False, True)
        for measured in order:
            rates[measured].append(rate_of(arguments, measured=measured))
        ratios.append(rates[True][-1] / rates[False][-1])
        print(f"    pair {number + 1}: {ratios[-1]:.3f}", file=sys.stderr, flush=True)
    told = {
        "name": "flintstream metrics on against off",
        "events_per_second": round(statistics.median(rates[True]), 1),
        "without": round(statistics.median(rates[False]), 1),
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(each, 4) for each in ratios],
        "settings": vars(args),
    }
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
