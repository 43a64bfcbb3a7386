"""The log that Spark keeps of its streams, on Spark: cheap on a local disk, and not believed if it was changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flintstream import FileSource
from flintstream.errors import CorruptStateError
from flintstream.spark.log import RENAMED, UNCHECKED

pytestmark = pytest.mark.spark


def names_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def settings_of(session: Any) -> dict[str, str | None]:
    return {name: session.conf.get(name, None) for name in (*RENAMED, *UNCHECKED)}


def test_no_checksums_beside_the_log_and_the_session_is_as_before(make_env, spark_session, tmp_path):
    before = settings_of(spark_session)
    frame = spark_session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    env = make_env("spark", checkpoint_dir=tmp_path)
    assert len(env.from_dataframe(frame).map(lambda row: row["value"]).execute_and_collect(limit=30)) == 30
    logged = names_in(tmp_path / "spark" / "offsets")
    assert {"0", "1", "2"} <= logged
    assert not [name for name in logged if "crc" in name]
    assert settings_of(spark_session) == before


def test_a_stream_of_files_minds_the_checksums_of_its_files(make_env, spark_session, tmp_path):
    """A file whose bytes are not those of its checksum is an error, whatever is quicker."""
    folder = tmp_path / "in"
    spark_session.range(100).selectExpr("id as n").coalesce(1).write.json(str(folder))
    (file,) = folder.glob("part-*.json")
    assert (folder / f".{file.name}.crc").exists()
    file.write_bytes(file.read_bytes().replace(b'"n":42', b'"n":43'))
    env = make_env("spark", checkpoint_dir=tmp_path / "state")
    source = FileSource.json(str(folder), files_per_epoch=1)
    with pytest.raises(Exception, match=r"(?i)checksum"):
        list(env.from_source(source, None).map(lambda row: row["n"]).execute_and_collect())


def test_other_offsets_than_those_of_the_manifest_are_refused(make_env, spark_session, tmp_path):
    def read(number: int) -> list[Any]:
        frame = spark_session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        env = make_env("spark", checkpoint_dir=tmp_path)
        return env.from_dataframe(frame).map(lambda row: row["value"]).uid("m").execute_and_collect(limit=number)

    read(20)
    offsets = tmp_path / "spark" / "offsets"
    for name in names_in(offsets):
        (offsets / name).write_bytes((offsets / name).read_bytes() + b" ")
    with pytest.raises(CorruptStateError, match=r"contradict each other.*put the files back"):
        read(40)
