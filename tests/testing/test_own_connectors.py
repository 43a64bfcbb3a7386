"""Our own connectors keep the contracts that users' connectors are put to. Servers have theirs in their folders."""

from __future__ import annotations

import csv
import functools
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintstream import (
    BucketAssigner,
    CollectionSource,
    CollectSink,
    DataGeneratorSource,
    Encoder,
    FileSink,
    FileSource,
    NumberSequenceSource,
    OutputFileConfig,
    PrintSink,
    choice,
    sequence,
    uniform,
)
from flintstream.testing import check_sink, check_source, sink_trial

ROWS = [{"id": n, "name": f"name {n}"} for n in range(60)]


def make_files(folder: Path, form: str) -> None:
    """Write the rows as three files of a format."""
    for number in range(3):
        path, rows = folder / f"{number}.{form}", ROWS[number * 20 : number * 20 + 20]
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        elif form == "csv":
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, ["id", "name"])
                writer.writeheader()
                writer.writerows(rows)
        else:
            path.write_text("".join(f"{json.dumps(row) if form == 'json' else row['name']}\n" for row in rows))


SOURCES: dict[str, tuple[Callable[[], Any], int]] = {
    "collection": (lambda: CollectionSource(ROWS), 3 * 60),
    "sequence": (lambda: NumberSequenceSource(-10, 89), 3 * 100),
    "generated rows": (
        lambda: DataGeneratorSource(
            {"id": sequence(), "sensor": choice(["a", "b"]), "celsius": uniform(18.0, 25.0)}, count=100, seed=7
        ),
        3 * 100,
    ),
    "a generator function": (lambda: DataGeneratorSource(generator=lambda n: (n, n * n), count=50), 3 * 50),
    "endless, at a rate": (lambda: DataGeneratorSource({"id": sequence()}, rate=5.0), (1 + 2 + 3) * 500),
}


@pytest.mark.parametrize("name", SOURCES)
def test_sources(name: str):
    make, records = SOURCES[name]
    assert check_source(make).records == records


@pytest.mark.parametrize("form", ["text", "json", "csv", "parquet"])
def test_file_sources(form: str, tmp_path: Path):
    make_files(tmp_path, form)
    (tmp_path / "later").mkdir()
    checked = check_source(
        lambda: getattr(FileSource, form)(tmp_path), grow=lambda: make_files(tmp_path / "later", form)
    )
    assert checked.records == 3 * 60


def visible(folder: Path) -> list[Path]:
    """Return the files that readers of a folder see, in the order of their names."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path for path in paths if not any(part[0] in "._" for part in path.relative_to(folder).parts))


def read_text(path: Path) -> list[Any]:
    return path.read_text().splitlines()


def read_csv(path: Path) -> list[Any]:
    with path.open(newline="") as file:
        return [(int(row["f0"]), row["f1"]) for row in csv.DictReader(file)]


def read_json(path: Path) -> list[Any]:
    return [(row["f0"], row["f1"]) for row in map(json.loads, read_text(path))]


def read_parquet(path: Path) -> list[Any]:
    return read_once(path, path.stat().st_ino)


@functools.cache
def read_once(path: Path, inode: int) -> list[Any]:
    """A file never changes, and reading one takes longer than all the rest."""
    return [(row["f0"], row["f1"]) for row in pq.read_table(path).to_pylist()]


def text_sink(folder: Path) -> FileSink:
    builder = FileSink.for_row_format(folder, Encoder.simple_string_encoder())
    builder = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_output_file_config(OutputFileConfig("part", ".txt")).build()


def rolling_sink(folder: Path) -> FileSink:
    return FileSink(folder, Encoder.simple_string_encoder(), part_size=8)


SINKS: dict[str, tuple[Callable[[Path], FileSink], Callable[[Path], list[Any]], bool]] = {
    "text": (text_sink, read_text, False),
    "text in small files": (rolling_sink, read_text, False),
    "json": (FileSink.json, read_json, True),
    "csv": (FileSink.csv, read_csv, True),
    "parquet": (FileSink.parquet, read_parquet, True),
    "parquet in small files": (lambda folder: FileSink.parquet(folder, part_size=64), read_parquet, True),
}


@pytest.mark.parametrize("name", SINKS)
def test_file_sinks(name: str, tmp_path: Path):
    make, read, is_table = SINKS[name]
    checked = check_sink(
        lambda: make(tmp_path),
        lambda: [record for path in visible(tmp_path) for record in read(path)],
        record=(lambda n: (n, f"name {n}")) if is_table else str,
        ordered="small" not in name,  # a directory has no order of files
        crashes=6,
    )
    assert (sink_trial.COLUMNS in checked.rules) == is_table


def test_file_sinks_on_an_object_store():
    """`memory:` is a store like the others: no rename, no folders."""
    root = f"/bucket-{uuid.uuid4().hex}"
    store = fsspec.filesystem("memory")

    def read_back() -> list[Any]:
        names = [name for name in sorted(store.find(root)) if "/." not in name]
        lines = [line for name in names for line in store.cat(name).splitlines()]
        return [(row["f0"], row["f1"]) for row in map(json.loads, lines)]

    check_sink(lambda: FileSink.json(f"memory:/{root}"), read_back, record=lambda n: (n, f"name {n}"), crashes=6)


def test_the_collect_sink():
    """Its target ends with its process: no job can start anew on it, and nothing is left of it after a crash."""
    sink = CollectSink()
    checked = check_sink(lambda: sink, lambda: sink.results, starts_anew=False, crashes=0)
    assert sink_trial.COLUMNS in checked.rules


def test_printing_is_at_least_once(capsys: pytest.CaptureFixture[str]):
    printed: list[str] = []

    def read_back() -> list[str]:
        printed.extend(line.rpartition("> ")[2] for line in capsys.readouterr().out.splitlines())
        return printed

    check_sink(PrintSink, read_back)
