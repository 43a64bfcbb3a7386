"""Parameters of a job's picture."""

from __future__ import annotations

from flintstream.errors import InvalidArgumentError
from tests.capabilities.parameters import Bench, case


def saved(bench: Bench, name: str) -> list[str]:
    folder = bench.folder()
    env = bench.env()
    env.from_collection([1]).print()
    env.graph().save(folder / name)
    return [path.name for path in folder.iterdir()]


case("JobGraph.save.path", saved, ("job.svg", ["job.svg"]), ("other.svg", ["other.svg"]), ("job", InvalidArgumentError))
