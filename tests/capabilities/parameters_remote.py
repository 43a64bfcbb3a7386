"""Parameters that say how a remote file system is reached: here one with drawers, of which the option opens one."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFileSystem

from flintstream import Encoder, FileSink, SavepointWriter, ValueStateDescriptor, savepoint
from flintstream.errors import InvalidArgumentError, SavepointError
from tests.capabilities.parameters import Bench, case

_NAMES = itertools.count()


class Drawers(MemoryFileSystem):
    """A file system in memory that keeps its files in the drawer it is told."""

    protocol = "drawers"
    cachable = False
    drawers: ClassVar[dict[str, tuple[dict[str, Any], list[str]]]] = {}

    def __init__(self, drawer: str = "top", **options: Any) -> None:
        super().__init__(**options)
        self.store, self.pseudo_dirs = self.drawers.setdefault(drawer, ({}, [""]))


fsspec.register_implementation("drawers", Drawers, clobber=True)


def opened(name: str) -> list[str]:
    """Return the drawers that have a file below a name."""
    return sorted(drawer for drawer, (store, _) in Drawers.drawers.items() if any(name in path for path in store))


def checkpoints(bench: Bench, options: Mapping[str, Any]) -> list[str]:
    name = f"checkpoints-{next(_NAMES)}"
    stream = bench.of(1, 2)
    env = stream.get_execution_environment()
    env.set_checkpoint_dir(f"drawers://{name}", storage_options=options)
    stream.print()
    env.execute()
    return opened(name)


def files(bench: Bench, options: Mapping[str, Any]) -> list[str]:
    name = f"files-{next(_NAMES)}"
    stream = bench.of(1, 2)
    stream.sink_to(FileSink.json(f"drawers://{name}", storage_options=options))
    stream.get_execution_environment().execute()
    return opened(name)


def lines(bench: Bench, options: Mapping[str, Any]) -> list[str]:
    name = f"lines-{next(_NAMES)}"
    stream = bench.of(1, 2)
    builder = FileSink.for_row_format(f"drawers://{name}", Encoder.simple_string_encoder())
    stream.sink_to(builder.with_storage_options(options).build())
    stream.get_execution_environment().execute()
    return opened(name)


def on_this_machine(bench: Bench, options: Mapping[str, Any]) -> str:
    bench.env().set_checkpoint_dir(str(bench.folder()), storage_options=options)
    return "fine"


def savepoint_in_a_drawer() -> str:
    address = f"drawers://savepoints-{next(_NAMES)}/one"
    writer = SavepointWriter.new_savepoint().with_state("op", ValueStateDescriptor("n", int), [("a", 3)])
    return writer.write(address, storage_options={"drawer": "left"})


def read(bench: Bench, options: Mapping[str, Any]) -> list[str]:
    return savepoint(savepoint_in_a_drawer(), storage_options=options).operators()


def go_on_from(bench: Bench, options: Mapping[str, Any]) -> list[str]:
    writer = SavepointWriter.from_existing_savepoint(savepoint_in_a_drawer(), storage_options=options)
    return savepoint(writer.write(str(bench.folder() / "copy"))).operators()


def write(bench: Bench, options: Mapping[str, Any]) -> list[str]:
    address = f"drawers://written-{next(_NAMES)}"
    SavepointWriter.new_savepoint().write(address, storage_options=options)
    return opened(address.removeprefix("drawers://"))


CHOICES: tuple[tuple[Any, Any], ...] = (({}, ["top"]), ({"drawer": "left"}, ["left"]))
SET = "StreamExecutionEnvironment.set_checkpoint_dir.storage_options"
case(SET, checkpoints, *CHOICES)
case(SET, on_this_machine, ({}, "fine"), ({"drawer": "left"}, InvalidArgumentError))
case("FileSink.__init__.storage_options", files, *CHOICES)
case("FileSink.RowFormatBuilder.with_storage_options.storage_options", lines, *CHOICES)

FOUND: tuple[tuple[Any, Any], ...] = (({"drawer": "left"}, ["op"]), ({"drawer": "right"}, SavepointError))
case("savepoint.storage_options", read, *FOUND)
case("SavepointWriter.from_existing_savepoint.storage_options", go_on_from, *FOUND)
case("SavepointWriter.write.storage_options", write, *CHOICES)
