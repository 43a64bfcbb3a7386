from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.engine import manifest as manifests
from flintstream.engine.epoch import StateFile, StateHandle
from flintstream.engine.manifest import Manifest
from flintstream.errors import CorruptStateError
from flintstream.model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from flintstream.ops.clock import LaneTime
from flintstream.state.storage import MemoryStorage
from tests.unit.values import law

NAMES = st.text(max_size=6)
COUNTS = st.integers(0, 2**40)
TIMES = st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP)
TIMES_LIST = st.lists(TIMES, max_size=3).map(tuple)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
LANES = st.builds(
    LaneTime, TIMES, COUNTS, st.booleans(), st.booleans(), pending=st.tuples(TIMES_LIST, TIMES_LIST), active_at=COUNTS
)
FILES = st.builds(StateFile, NAMES, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, st.booleans())
HANDLES = st.builds(
    StateHandle,
    st.lists(FILES, max_size=2).map(tuple),
    st.lists(st.tuples(COUNTS, NAMES), max_size=2).map(tuple),
    st.tuples(COUNTS, COUNTS),
)


def with_its_own_files(manifest: Manifest) -> Manifest:
    """Return a manifest whose files are of its epoch, or of earlier ones: it can have no others."""
    for place, handle in manifest.state.items():
        files = tuple(replace(file, last_epoch=min(file.last_epoch, manifest.epoch)) for file in handle.files)
        manifest.state[place] = replace(handle, files=files)
    return manifest


MANIFESTS = st.builds(
    Manifest,
    NAMES,
    NAMES,
    COUNTS,
    COUNTS,
    predecessor=NAMES,
    max_parallelism=st.integers(1, 1 << 15),
    layout=st.dictionaries(NAMES, st.lists(COUNTS, max_size=2), max_size=2),
    split_into=st.dictionaries(NAMES, COUNTS, max_size=2),
    positions=st.dictionaries(NAMES, st.dictionaries(COUNTS, COUNTS, max_size=2), max_size=2),
    lanes=st.dictionaries(COUNTS, LANES, max_size=2),
    lane_owners=st.dictionaries(COUNTS, NAMES, max_size=2),
    watermarks=st.dictionaries(NAMES, TIMES, max_size=2),
    state=st.dictionaries(NAMES, HANDLES, max_size=2),
    committables=st.dictionaries(NAMES, st.lists(JSON, max_size=2), max_size=2),
    counters=st.dictionaries(NAMES, st.dictionaries(NAMES, COUNTS, max_size=2), max_size=2),
    spark=st.dictionaries(NAMES, JSON, max_size=2),
    finished=st.booleans(),
).map(with_its_own_files)
FILE = StateFile("state/a.bin", 0, 10, 1, 2, 3, 4, False)
EXAMPLE = Manifest(
    "job",
    "incarnation",
    7,
    1000,
    lanes={1 << 40: LaneTime(5, 2, pending=((1,), (9,)))},
    state={"1/0": StateHandle((FILE,), ((7, "token"),), (0, 64))},
    committables={
        "sink": [{"stored": True, "path": "epochs/7.bin", "offset": 0}, {"path": "user/own"}, "text", None],
    },
)


@law
@given(MANIFESTS)
def test_a_manifest_survives_its_bytes(manifest: Manifest) -> None:
    data = manifest.to_bytes()
    back = Manifest.from_bytes(data, "m.json")
    assert back == manifest
    assert back.to_bytes() == data
    assert back.digest() == manifest.digest()


def test_another_content_has_another_digest() -> None:
    other = Manifest.from_bytes(EXAMPLE.to_bytes(), "m.json")
    other.counters["count"] = {"in": 1}
    assert other.digest() != EXAMPLE.digest()


def test_a_manifest_names_the_files_of_state_and_of_stored_output() -> None:
    assert EXAMPLE.files() == {"state/a.bin", "epochs/7.bin"}


@law
@given(st.data())
def test_a_manifest_cut_short_is_damaged_and_named(data: st.DataObject) -> None:
    good = EXAMPLE.to_bytes()
    with pytest.raises(CorruptStateError, match=r"'manifests/7\.json'"):
        Manifest.from_bytes(good[: data.draw(st.integers(0, len(good) - 1))], "manifests/7.json")


@law
@given(st.data())
def test_a_manifest_with_another_byte_is_damaged_and_named(data: st.DataObject) -> None:
    bad = bytearray(EXAMPLE.to_bytes())
    bad[data.draw(st.integers(0, len(bad) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptStateError, match=r"'manifests/7\.json'"):
        Manifest.from_bytes(bytes(bad), "manifests/7.json")


@pytest.mark.parametrize("data", [b"", b"null", b"5", b'"text"', b"[]", b"{}", b"\xff", b'{"format": 1}'])
def test_what_is_no_manifest_is_refused_and_named(data: bytes) -> None:
    with pytest.raises(CorruptStateError, match=r"'m\.json'"):
        Manifest.from_bytes(data, "m.json")


def rewritten(change: dict[str, Any]) -> bytes:
    """Return the example with other fields and a checksum that fits them."""
    document = json.loads(EXAMPLE.to_bytes())
    del document["checksum"]
    body = json.dumps(document | change, separators=(",", ":"))
    return f'{body[:-1]},"checksum":{manifests.checksum(body.encode())}}}'.encode()


def test_a_manifest_of_another_format_is_told_apart() -> None:
    assert Manifest.from_bytes(rewritten({}), "m.json") == EXAMPLE
    with pytest.raises(CorruptStateError, match="another format"):
        Manifest.from_bytes(rewritten({"format": 2}), "m.json")


@pytest.mark.parametrize("change", [{"lanes": []}, {"state": {"1/0": {}}}, {"unknown": 1}, {"positions": {"a": 3}}])
def test_a_manifest_with_wrong_fields_cannot_be_read(change: dict[str, Any]) -> None:
    with pytest.raises(CorruptStateError, match=r"'m\.json' cannot be read"):
        Manifest.from_bytes(rewritten(change), "m.json")


def test_the_newest_manifest_is_that_of_the_highest_epoch() -> None:
    storage = MemoryStorage()
    assert manifests.newest(storage) is None
    for epoch in (9, 10, 2):
        storage.create(manifests.path_of(epoch), Manifest("job", "i", epoch, 0).to_bytes())
    found = manifests.newest(storage)
    assert found is not None
    assert found.epoch == 10


def test_names_of_manifests_sort_by_epoch() -> None:
    names = [manifests.path_of(epoch).partition("/")[2] for epoch in (1, 99, 100, 10**9)]
    assert names == sorted(names)
    assert [manifests.epoch_of(name) for name in names] == [1, 99, 100, 10**9]
