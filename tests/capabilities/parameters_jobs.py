"""Settings of jobs that someone outside the program gives: a benchmark, a manager."""

from __future__ import annotations

from flintstream.errors import InvalidArgumentError
from tests.capabilities.parameters import Bench, case, epochs_of


def epochs_at(bench: Bench, rate: str) -> int:
    """Return how many epochs two records take: one if both are due at the first look, two if a second lies between."""
    env = bench.env(1, settings={"flintstream.source.rate": rate})
    return len(epochs_of(env.from_collection(range(2)).map(str)))


case(
    "Configuration['flintstream.source.rate']",
    epochs_at,
    ("1000000", 1),
    ("1", 2),
    ("0", InvalidArgumentError),
)


def folders_below(bench: Bench, name: str) -> list[str]:
    """Return which folders a job makes that names no checkpoint directory, and is offered a place."""
    folder = bench.folder()
    env = bench.env(1, settings={"flintstream.checkpoint-root": str(folder / name)})
    env.from_collection([1]).print()
    env.execute()
    return sorted(path.name for path in folder.iterdir())


case("Configuration['flintstream.checkpoint-root']", folders_below, ("here", ["here"]), ("there", ["there"]))
