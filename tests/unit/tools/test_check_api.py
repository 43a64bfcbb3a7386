"""The guard of the public names: what counts as code in a façade, and when the golden file is missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_api


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tests" / "api" / "public_api.txt"
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(check_api, "_ROOT", tmp_path)
    monkeypatch.setattr(check_api, "_GOLDEN", path)
    return path


def test_a_missing_golden_file_fails_only_once_there_are_names(golden: Path):
    assert check_api.compare([]) == []
    assert "public_api.txt is missing" in check_api.compare(["flintstream.DataStream"])[0]


def test_added_and_removed_names_are_shown(golden: Path):
    golden.write_text("flintstream.A\nflintstream.B\n")
    assert check_api.compare(["flintstream.A", "flintstream.B"]) == []
    changes = check_api.compare(["flintstream.A", "flintstream.C"])
    assert {"-flintstream.B", "+flintstream.C"} <= set(changes)
    assert changes[-1].endswith("--bless")


def test_a_facade_may_only_document_import_and_list(tmp_path: Path):
    path = tmp_path / "facade.py"
    path.write_text('"""Doc."""\nfrom __future__ import annotations\nimport os\n__all__ = ["os"]\n')
    assert check_api.code_in_facade(path) == []
    path.write_text('"""Doc."""\nimport os\nLIMIT = 3\ndef f(): pass\n')
    assert check_api.code_in_facade(path) == [3, 4]


def test_a_promised_name_that_is_missing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "promising_module.py").write_text('__all__ = ["here", "gone"]\nhere = 1\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SystemExit, match="not there: gone"):
        check_api.public_names("promising_module")
