"""A job from Kafka to PostgreSQL and Kafka whose processes and servers are killed at random, and must not show it.

``python -m tools.chaos`` runs ten minutes: a feed into Kafka, windows and a function with timers on Spark, results into
tables and topics, all exactly once, while driver, JVM, Python workers, broker and database are killed at moments that a
seed chooses. At the end every row is compared with what follows from the input. It prints kills, recovery times and
memory; its status is 1 if anything is wrong, and then all logs and data are kept. The servers are the run's own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.plan import JOB, SERVERS
from tests.chaos.record import report
from tests.chaos.run import Setup, run
from tools.kafka_broker import NoBrokerError
from tools.servers import NoServerError

KILLS_PER_MINUTE = 2.5


def main() -> int:
    """Run once; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Kill everything at random, and see that nothing shows.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kills", type=int, help=f"in all; by default {KILLS_PER_MINUTE} a minute")
    parser.add_argument("--kinds", nargs="+", choices=[*JOB, *SERVERS], default=[*JOB, *SERVERS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=2_000, help="readings a second")
    parser.add_argument("--folder", type=Path, help="where everything is kept; by default it is thrown away if right")
    parser.add_argument("--supervisor", choices=["flintstream", "own"], default="flintstream")
    parser.add_argument("--write", type=Path, metavar="FILE", help="append the report to this file")
    given = parser.parse_args()
    kills = round(given.minutes * KILLS_PER_MINUTE) if given.kills is None else given.kills
    folder = given.folder or Path(tempfile.mkdtemp(prefix="flintstream-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    say = lambda text: print(text, flush=True)  # noqa: E731
    supervised = given.supervisor == "flintstream"
    setup = Setup(
        folder, given.minutes * 60, kills, given.kinds, given.seed, given.rate, supervised=supervised, say=say
    )
    load, started = os.getloadavg()[0], time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    try:
        verdict, record = run(setup)
    except (NoBrokerError, NoServerError) as error:
        print(error, file=sys.stderr)
        return 2
    except BaseException:
        say(f"evidence is in {folder}")
        raise
    head = f"{started} UTC, seed {given.seed}, {given.rate:,} readings/s, {os.cpu_count()} cores"
    lines = [f"{head}, load {load:.1f} before and {os.getloadavg()[0]:.1f} after", ""]
    lines += [f"**{'Right' if verdict.is_right else 'WRONG'}**", "", *report(record, verdict.rows)]
    lines += [f"- {name}: {what}" for name, each in verdict.wrong.items() for what in each]
    say("\n".join(lines))
    if given.write is not None:
        with given.write.open("a") as file:
            file.write("\n".join([*lines, "", ""]))
    if not verdict.is_right or given.folder:
        say(f"everything is kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if verdict.is_right else 1


if __name__ == "__main__":
    sys.exit(main())
