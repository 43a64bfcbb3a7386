"""A driver whose death is real: a process that runs cases until one of them kills it.

It is a script. Each start recovers the case that killed the one before, and goes on to the next: that way there is one
start of Spark for each death and not two.
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.faults.lives import InProcess
from tests.faults.matrix import Case, run_case

Run = Callable[[Case, Path], object]


def on_spark(scratch: str) -> Run:
    """Start Spark; return what runs a case on it."""
    # A driver without Spark shall not wait for it.
    from flintstream.spark.session import create_session
    from tests.faults.on_spark import OnSpark
    from tests.faults.spark_files import PROGRAM, run_files

    java = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData"
    settings = {"spark.local.dir": scratch, "spark.driver.extraJavaOptions": java}
    session = create_session(2, "flintstream faults", settings)
    return lambda case, folder: (
        run_files(session, case, folder, os.getpid())
        if case.program == PROGRAM
        else run_case(OnSpark(session), case, folder, os.getpid())
    )


def outcome(run: Run, case: Case, folder: Path) -> str:
    """Run a case; return what went wrong, if it did not kill this process and something did."""
    try:
        run(case, folder)
    except Exception:
        return traceback.format_exc()
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime", choices=["local", "spark"], required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("cases", type=Path, help="a file with a JSON list of folders and their cases")
    args = parser.parse_args()
    run: Run = lambda case, folder: run_case(InProcess(), case, folder, os.getpid())  # noqa: E731
    if args.runtime == "spark":
        run = on_spark(args.scratch)
    for folder, document in json.loads(args.cases.read_text()):
        done = Path(folder, "done")
        if not done.exists():
            done.write_text(outcome(run, Case.from_json(document), Path(folder)))


if __name__ == "__main__":
    main()
